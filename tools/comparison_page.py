"""Writes docs/comparison.md: bert_zoo beside other libraries, family by family, on the same tiny checkpoints.

python tools/comparison_page.py --transformers_python PYTHON --sentence_transformers_python PYTHON \\
    --kerasformers_python PYTHON [--kerasformers_path SOURCE]

Each PYTHON is that of an environment with the library; KerasHub and bert_zoo run in this one. What is not
given is not run, and the page says so. `tools/references/peers/exactness.py` is what runs there.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "golden"
FAMILIES = {
    "bert": "BERT",
    "roberta": "RoBERTa",
    "xlm_roberta": "XLM-RoBERTa",
    "albert": "ALBERT",
    "spanbert": "SpanBERT",
    "distilbert": "DistilBERT",
    "mpnet": "MPNet",
    "electra": "ELECTRA",
    "deberta": "DeBERTa 1",
    "deberta_v2": "DeBERTa 2, 3",
    "xlm": "XLM",
    "gpt": "GPT",
    "gpt2": "GPT-2",
    "modernbert": "ModernBERT",
    "xlnet": "XLNet",
}
LIBRARIES = {
    "bert_zoo": "bert_zoo",
    "transformers": "transformers",
    "keras_hub": "KerasHub",
    "kerasformers": "KerasFormers",
    "sentence_transformers": "sentence-transformers",
}
# What a cell says in the place of a number: part of an error -> words.
REASONS = {
    "no converter": "not read",
    "No module named": "not there",
    "Unrecognized": "not read",
    "model_type": "not read",
    "No such file": "not read",
}
NOT_RUN = "not run"
FEATURES = """
| | bert_zoo | transformers | KerasHub | KerasFormers | sentence-transformers | Model Garden |
|---|---|---|---|---|---|---|
| computes with | Keras 3 on TensorFlow; on ids also JAX | PyTorch | Keras 3 on TensorFlow, JAX, PyTorch | Keras 3 on TensorFlow, JAX, PyTorch | PyTorch | TensorFlow with tf_keras |
| what it is for | BERT's family | everything, language, vision, sound | many language and vision models | many language and vision models | sentence vectors and rerankers, with the losses that train them | the authors' trainings, on TPUs |
| tokenizer in TensorFlow's graph | yes | no | yes | no | no | yes |
| training on strings | `fit` | tokenize first | `fit` | tokenize first | its trainer | tokenize first |
| Hugging Face directories | read and written, heads included | its own | encoders are read, some written | read | its own | no |
| TF1 checkpoints, TF-Hub's names, fairseq's files | read | no | no | no | no | TF1, by its converters |
| Transformer-XL, SpanBERT's second head, ELECTRA in one model, DeBERTa's mask decoder | yes | no | no | no | no | no |
| pretraining from a pile of text | a program, for seven objectives | example programs | no | no | no | programs, from TFRecords |
| served without itself | SavedModel from strings, LiteRT, ONNX | through other packages | Keras's `export`, on ids | Keras's `export`, on ids | ONNX, OpenVINO | SavedModel |
""".strip()


def run(library: str, python: str, source: str | None = None) -> dict[str, Any]:
    """What `exactness.py` finds with a library: its version, and differences by family.

    Raises:
        subprocess.CalledProcessError: the program failed.
    """
    names = [f"{family}/encoder" for family in FAMILIES]
    program = ROOT / "tools" / "references" / "peers" / "exactness.py"
    path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    found = subprocess.run(
        [python, program, library, GOLDEN, *names],
        env=os.environ | {"PYTHONPATH": path} | ({"KERAS_BACKEND": "torch"} if source else {}),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(found.stdout.splitlines()[-1])


def cell(difference: float | str) -> str:
    if not isinstance(difference, str):
        return f"{difference:.1e}"
    return next((words for part, words in REASONS.items() if part in difference), difference)


def exactness_table(results: dict[str, dict[str, Any]]) -> Iterable[str]:
    """Lines of the table of differences; columns as in `LIBRARIES`."""
    heads = [
        f"{title} {results[library]['version']}" if library in results else title
        for library, title in LIBRARIES.items()
    ]
    yield f"| | {' | '.join(heads)} |"
    yield "|---|" + "---:|" * len(heads)
    for family, title in FAMILIES.items():
        cells = [
            cell(results[library]["differences"][f"{family}/encoder"])
            if library in results
            else NOT_RUN
            for library in LIBRARIES
        ]
        yield f"| [{title}](families/{family}.md) | {' | '.join(cells)} |"


def lines_table(results: dict[str, dict[str, Any]]) -> Iterable[str]:
    """Lines of the table of lines of code; libraries that have modules by family."""
    libraries = [library for library in LIBRARIES if results.get(library, {}).get("lines")]
    yield f"| | {' | '.join(LIBRARIES[library] for library in libraries)} |"
    yield "|---|" + "---:|" * len(libraries)
    for family, title in FAMILIES.items():
        counts = (results[library]["lines"].get(family) for library in libraries)
        cells = (f"{count:,}" if count else "" for count in counts)
        yield f"| {title} | {' | '.join(cells)} |"


def page(results: dict[str, dict[str, Any]], date: datetime.date) -> str:
    """The page's Markdown.

    Args:
        results: by library, what `run` gives.
    """
    return f"""# Beside other libraries

Written by `tools/comparison_page.py` on {date:%d %B %Y}, with the versions in the tables.

## What each is for

{FEATURES}

Where you train sentence vectors, need a model that is none of BERT's family, or work in PyTorch, take the library that is made for it: files go both ways.

## The same weights

The largest difference of hidden states from what transformers computes in float64 (SpanBERT: the original's code), on the tiny, randomly initialised checkpoints of
`tests/golden`, which have Hugging Face's names and configuration; rows padded on the right, without padding's token among the
real ones. Two correct programs in float32 differ by about
1e-6 here.

{chr(10).join(exactness_table(results))}

- KerasHub: BERT has GELU by its tanh approximation, whatever the configuration says. RoBERTa leaves out the table of segments, which is zeros in the released
  files and is not here. It counts positions from a row's beginning, so that rows padded on the left differ too. ALBERT, DistilBERT and RoBERTa are read under the
  names of files with a head.
- SpanBERT's own configuration names no kind of model; transformers reads it as a BERT where one is written into it.
- Transformer-XL is in bert_zoo alone: transformers had it up to version 4.35, and differences from that are in [Measured results](results.md#equal-to-the-reference).
- Model Garden needs TensorFlow with tf_keras and has not been run on these checkpoints. Its BERT and ours give the same vectors from a checkpoint of its own
  ([its guide](migrating/model_garden.md)).
- KerasFormers' version is that of its source tree; it is not among the packages of the index that this environment reaches.

## Lines a family

Lines of the Python files in a family's folder that are neither empty nor comments alone: model, tasks, tokenizer, converter; presets, lists of checkpoints and tests left out.
bert_zoo's are its page and what stands beside it. Libraries differ in what they keep there: transformers repeats layers in each family by design, and
the tokenizers, tasks and formats of bert_zoo are shared.

{chr(10).join(lines_table(results))}

## Speed

Side by side, with the programs that measure it: [forward passes and tokenizers](results.md#speed), [long texts](results.md#long-texts),
[writing](results.md#writing), [whole fine-tunings](results.md#whole-fine-tunings-side-by-side), [pretraining](results.md#parts-of-pretraining-side-by-side),
[serving](serving.md#what-it-costs). The front page has a [picture](index.md) of them.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for library in ("transformers", "sentence_transformers", "kerasformers"):
        parser.add_argument(f"--{library}_python", help=f"of an environment with {library}")
    parser.add_argument("--kerasformers_path", help="of KerasFormers' source, if not installed")
    arguments = vars(parser.parse_args())
    pythons = {library: arguments.get(f"{library}_python") for library in LIBRARIES}
    pythons |= dict.fromkeys(("bert_zoo", "keras_hub"), sys.executable)
    results = {
        library: run(library, python, arguments.get(f"{library}_path"))
        for library, python in pythons.items()
        if python
    }
    text = page(results, datetime.date.today())
    (ROOT / "docs" / "comparison.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
