"""Writes docs/comparison.md: bert_zoo beside other libraries, family by family, on the same tiny checkpoints.

python tools/comparison_page.py --transformers_python PYTHON --sentence_transformers_python PYTHON \\
    --kerasformers_python PYTHON [--kerasformers_path SOURCE] --tf_models_official_python PYTHON \\
    --speed JSON

Each PYTHON is that of an environment with the library; KerasHub and bert_zoo run in this one. JSON is what
`tools/benchmark.py --what libraries --output JSON` wrote. What is not
given is not run, and the page says so. `exactness.py` and `features.py` of `tools/references/peers` are what runs there.
"""

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from bert_zoo.objectives import OBJECTIVES

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "golden"
PEERS = ROOT / "tools" / "references" / "peers"
FAMILIES = {
    "bert": "BERT",
    "roberta": "RoBERTa",
    "xlm_roberta": "XLM-RoBERTa",
    "camembert": "CamemBERT",
    "bertweet": "BERTweet",
    "multilingual_minilm": "multilingual MiniLM",
    "albert": "ALBERT",
    "spanbert": "SpanBERT",
    "distilbert": "DistilBERT",
    "mobilebert": "MobileBERT",
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
    "tf_models_official": "Model Garden",
}
IN_THIS_ENVIRONMENT = ("bert_zoo", "keras_hub")
# Those that have a folder, or files, a family.
BY_FAMILY = ("bert_zoo", "transformers", "keras_hub", "kerasformers")
# What a cell says in the place of a number: part of an error -> words.
REASONS = {
    "no converter": "not read",
    "No module named": "not there",
    "Unrecognized": "not read",
    "model_type": "not read",
    "No such file": "not read",
}
NOT_RUN = "not run"
# Largest differences: of hidden states that were read, other GELU or not, and of heads that are equal.
READ, EQUAL = 1e-2, 1e-4
HEADS = (
    "classification",
    "regression",
    "token_classification",
    "question_answering",
    "multiple_choice",
    "masked_lm",
)
# Checkpoints in formats that are not Hugging Face's of today, below the folder that `prepare` fills.
FORMATS = {
    "tf_model_h5/classification": "`tf_model.h5`",
    "tf1_bert/encoder": "TF1",
    "fairseq/fairseq_old": "fairseq",
    "model_garden/bert_v2": "Model Garden",
    "keras_hub/encoder": "KerasHub",
    "bert4keras/encoder": "bert4keras",
}
# What no program shows; columns as in `LIBRARIES`.
PURPOSES = {
    "computes with": (
        "Keras 3 on TensorFlow; on ids also JAX",
        "PyTorch",
        "Keras 3 on TensorFlow, JAX, PyTorch",
        "Keras 3 on TensorFlow, JAX, PyTorch",
        "PyTorch",
        "TensorFlow with tf_keras",
    ),
    "what it is for": (
        "BERT's family",
        "everything, language, vision, sound",
        "many language and vision models",
        "many language and vision models",
        "sentence vectors and rerankers, with the losses that train them",
        "the authors' trainings, on TPUs",
    ),
    "pretraining from a pile of text": (
        f"a program, for {len(OBJECTIVES)} objectives of hidden tokens, and the next token",
        "example programs",
        "no",
        "no",
        "no",
        "programs, from TFRecords",
    ),
    "served without itself": (
        "SavedModel from strings, LiteRT, ONNX",
        "through other packages",
        "Keras's `export`, on ids",
        "Keras's `export`, on ids",
        "ONNX, OpenVINO",
        "SavedModel",
    ),
}
# Functions of features.py -> rows.
FEATURES = {
    "tokenizes_in_the_graph": "tokenizer in TensorFlow's graph",
    "trains_on_strings": "`fit` on strings",
    "writes_hugging_face": "writes Hugging Face directories (BERT)",
}


def prepare(directory: Path) -> None:
    """Fills a folder with golden checkpoints in the formats of `FORMATS`, and ALBERT for Model Garden's converter."""
    for name, task in {
        "tf_model_h5/classification": "classification",
        "tf1_bert/encoder": "encoder",
        "tf1_albert/encoder": "encoder",
        "fairseq/fairseq_old": "masked_lm",
        "model_garden/bert_v2": "encoder",
        "keras_hub/encoder": "encoder",
        "bert4keras/encoder": "encoder",
    }.items():
        path = directory / name
        path.mkdir(parents=True)
        cases = {"cases": {path.name: {"task": task}}}
        (path.parent / "cases.json").write_text(json.dumps(cases), encoding="utf-8")
    without_weights = shutil.ignore_patterns("*.safetensors")
    made = directory / "tf_model_h5" / "classification"
    shutil.copytree(
        GOLDEN / "bert" / "classification", made, ignore=without_weights, dirs_exist_ok=True
    )
    shutil.copy(GOLDEN / "tf_keras" / "bert_classification.h5", made / "tf_model.h5")
    for family in ("bert", "albert"):
        write_tf1(GOLDEN / family / "encoder", directory / f"tf1_{family}" / "encoder")
    write_keras_hub(GOLDEN / "bert" / "encoder", directory / "keras_hub" / "encoder")
    write_bert4keras(GOLDEN / "bert" / "encoder", directory / "bert4keras" / "encoder")
    shutil.copytree(
        GOLDEN / "roberta" / "fairseq_old",
        directory / "fairseq" / "fairseq_old",
        dirs_exist_ok=True,
    )
    shutil.copytree(
        GOLDEN / "model_garden" / "bert_v2",
        directory / "model_garden" / "bert_v2",
        dirs_exist_ok=True,
    )


def write_tf1(golden: Path, directory: Path) -> None:
    """Writes an encoder as Google's programs store it, with its vocabulary, inputs and outputs."""
    import tensorflow as tf

    tensors = write_google_config(golden, directory, "tf1")
    tf.raw_ops.SaveV2(
        prefix=str(directory / "model.ckpt"),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )


def write_bert4keras(golden: Path, directory: Path) -> None:
    """Writes an encoder as `save_weights` of bert4keras does, beside Google's configuration."""
    import h5py

    tensors = write_google_config(golden, directory, "bert4keras")
    with h5py.File(directory / "best_model.h5", "w") as file:
        for name, tensor in tensors.items():
            layer = name.partition("/")[0]
            file[f"{layer}/{name}:0"] = tensor


def write_keras_hub(golden: Path, directory: Path) -> None:
    """Writes an encoder as KerasHub's preset, with its inputs and outputs."""
    import bert_zoo

    bert_zoo.save(bert_zoo.load(golden), directory, format="keras_hub")
    shutil.copy(golden / "io.npz", directory)


def write_google_config(golden: Path, directory: Path, format: str) -> dict[str, Any]:
    """Writes an encoder's configuration as Google's programs have it, its vocabulary, inputs and outputs.

    Returns:
        Its tensors by their names in the format.
    """
    import bert_zoo
    from bert_zoo.registry import registry
    from bert_zoo.weights.bind import to_stored, variables_of

    model = bert_zoo.load(golden)
    family = registry().families[model.family]
    plan = family.plan(format, model.config)
    # Google's GELU is the approximation by tanh.
    about = family.formats["tf1"].codec.encode(model.config.replace(activation="gelu_tanh"))
    about |= {"attention_probs_dropout_prob": 0.0, "hidden_dropout_prob": 0.0}
    (directory / f"{family.name}_config.json").write_text(json.dumps(about), encoding="utf-8")
    for file in golden.iterdir():
        if file.is_file() and file.name not in ("config.json", "model.safetensors"):
            shutil.copy(file, directory)
    return to_stored(variables_of(model), plan.bindings(None, model.config.pooler))


def environment(library: str, source: str | None) -> dict[str, str]:
    """The environment's variables for a library.

    Args:
        source: of KerasFormers, if it is not installed.
    """
    variables = os.environ | {"TF_USE_LEGACY_KERAS": str(int(library == "tf_models_official"))}
    if library == "kerasformers":
        path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
        variables = {"KERAS_BACKEND": "torch"} | variables | {"PYTHONPATH": path}
    return variables


def run(library: str, python: str, source: str | None, prepared: Path) -> dict[str, Any]:
    """What `features.py` and `exactness.py` find with a library.

    Raises:
        subprocess.CalledProcessError: a program failed.
    """
    encoders = {f"{family}/encoder": GOLDEN / family / "encoder" for family in FAMILIES}
    if library == "tf_models_official":  # what its converters read
        encoders |= {
            f"{family}/encoder": prepared / f"tf1_{family}" / "encoder"
            for family in ("bert", "albert")
        }
    heads = {
        f"{family}/{task}": GOLDEN / family / task
        for family in FAMILIES
        for task in HEADS
        if (GOLDEN / family / task).is_dir()
    }
    directories = encoders | heads | {name: prepared / name for name in FORMATS}

    def printed(program: str, *arguments: str | Path) -> dict[str, Any]:
        found = subprocess.run(
            [python, PEERS / program, library, *arguments],
            env=environment(library, source),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return json.loads(found.stdout.splitlines()[-1])

    differences = printed("exactness.py", *directories.values())
    named = {name: differences[str(directory)] for name, directory in directories.items()}
    families = FAMILIES if library in BY_FAMILY else ()
    return printed("features.py", GOLDEN, *families) | {"differences": named}


def cell(difference: float | str) -> str:
    if not isinstance(difference, str):
        return f"{difference:.1e}"
    return next((words for part, words in REASONS.items() if part in difference), difference)


def below(difference: float | str, most: float) -> bool:
    return not isinstance(difference, str) and difference < most


def features_table(results: dict[str, dict[str, Any]]) -> Iterable[str]:
    """Lines of the table of features; columns as in `LIBRARIES`."""

    def heads(result: dict[str, Any]) -> str:
        found = {
            name: difference
            for name, difference in result["differences"].items()
            if name.partition("/")[2] in HEADS and name not in FORMATS
        }
        equal = sum(below(difference, EQUAL) for difference in found.values())
        return f"{equal} of {len(found)}"

    def formats(result: dict[str, Any]) -> str:
        read = (
            title for name, title in FORMATS.items() if below(result["differences"][name], READ)
        )
        return ", ".join(read) or "none"

    tried: dict[str, Callable[[dict[str, Any]], str]] = {
        title: lambda result, feature=feature: "no" if result["features"][feature] else "yes"
        for feature, title in FEATURES.items()
    }
    tried |= {
        "heads read from Hugging Face directories": heads,
        "other files that are read": formats,
    }
    rows = PURPOSES | {
        title: [of(results[name]) if name in results else NOT_RUN for name in LIBRARIES]
        for title, of in tried.items()
    }
    yield f"| | {' | '.join(LIBRARIES.values())} |"
    yield "|---" * (len(LIBRARIES) + 1) + "|"
    for title, cells in rows.items():
        yield f"| {title} | {' | '.join(cells)} |"


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
    libraries = [library for library in BY_FAMILY if library in results]
    yield f"| | {' | '.join(LIBRARIES[library] for library in libraries)} |"
    yield "|---|" + "---:|" * len(libraries)
    for family, title in FAMILIES.items():
        counts = (results[library]["lines"].get(family) for library in libraries)
        cells = (f"{count:,}" if count else "" for count in counts)
        yield f"| {title} | {' | '.join(cells)} |"


def speed_section(speed: dict[str, Any] | None) -> Iterable[str]:
    """Lines of what `tools/benchmark.py --what libraries` measured."""
    if speed is None:
        yield "Not measured."
        return
    rows, length = speed["shape"]
    yield (
        f"One run of `tools/benchmark.py --what libraries` on {datetime.date.fromisoformat(speed['date']):%d %B %Y}: "
        f"{speed['processor']}, {speed['threads']} threads, float32, medians of {speed['rounds']} rounds in which "
        "each has its turn. In brackets: how many times as fast bert_zoo is, and the spread of that over the rounds."
    )
    yield ""
    heads = (f"BERT base, {rows} rows of {length} tokens", f"MiniLM, {speed['texts']} texts")
    yield f"| | with | {heads[0]} | largest difference | {heads[1]} |"
    yield "|---|---|---|---:|---|"
    for library, found in speed["libraries"].items():
        version, *beneath = found["versions"]
        cells = [f"{LIBRARIES[library]} {version}", ", ".join(beneath)]
        cells += [speed_cell(speed["races"]["forward"], library), f"{found['difference']:.1e}"]
        cells.append(speed_cell(speed["races"].get("embed", {}), library))
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield (
        "All have the same random weights and give the hidden states of all tokens, whose differences are from bert_zoo's. "
        "TensorFlow runs a function that it traced, without XLA; torch computes in `inference_mode`. The texts are strings, which "
        "`embed` of bert_zoo and `encode` of sentence-transformers turn into vectors with the same weights."
    )


def speed_cell(race: dict[str, dict[str, Any]], library: str) -> str:
    if library not in race:
        return ""
    figures = race[library]
    seconds = f"{figures['median']:.2f} s"
    if library == next(iter(race)):
        return seconds
    ratios = figures["ratios"]
    return f"{seconds} ({figures['ratio']:.2f}x, {min(ratios):.2f}–{max(ratios):.2f})"


def page(
    results: dict[str, dict[str, Any]], date: datetime.date, speed: dict[str, Any] | None = None
) -> str:
    """The page's Markdown.

    Args:
        results: by library, what `run` gives.
        speed: what `tools/benchmark.py --what libraries` gives; None where it was not measured.
    """
    return f"""# Beside other libraries

Written by `tools/comparison_page.py` on {date:%d %B %Y}, with the versions in the tables.

## What each is for

{chr(10).join(features_table(results))}

The last five rows were found by running these versions. Heads of classification, regression, tagging, question answering, multiple choice and
masked words are those of the next section's checkpoints, and count where their logits are within 1e-4 of the reference. sentence-transformers takes
texts through a trainer of its own; KerasHub and Model Garden read their own checkpoints besides.

Where you train sentence vectors, need a model that is none of BERT's family, or work in PyTorch, take the library that is made for it: files go both ways.

## The same weights

The largest difference of hidden states from what transformers computes in float64 (SpanBERT: the original's code), on the tiny, randomly initialised checkpoints of
`tests/golden`, which have Hugging Face's names and configuration; rows padded on the right, without padding's token among the
real ones. Two correct programs in float32 differ by about
1e-6 here.

{chr(10).join(exactness_table(results))}

- KerasHub: BERT, and so multilingual MiniLM, has GELU by its tanh approximation, whatever the configuration says. RoBERTa leaves out the table of segments, which is zeros in the released
  files and is not here. It counts positions from a row's beginning, so that rows padded on the left differ too. ALBERT, DistilBERT and RoBERTa are read under the
  names of files with a head.
- SpanBERT's own configuration names no kind of model; transformers reads it as a BERT where one is written into it.
- Transformer-XL is in bert_zoo alone: transformers had it up to version 4.35, and differences from that are in [Measured results](results.md#equal-to-the-reference).
- Model Garden reads no Hugging Face directories: the weights were written as TensorFlow 1 checkpoints for its converters, which there are for BERT and ALBERT.
  Its GELU is the approximation by tanh. Of checkpoints that it wrote, both give the same ([its guide](migrating/model_garden.md)).
- KerasFormers' version is that of its source tree; it is not among the packages of the index that this environment reaches.

## Lines a family

Lines of the Python files in a family's folder that are neither empty nor comments alone: model, tasks, tokenizer, converter; presets, lists of checkpoints and tests left out.
bert_zoo's are its page and what stands beside it. Libraries differ in what they keep there: transformers repeats layers in each family by design, and
the tokenizers, tasks and formats of bert_zoo are shared.

{chr(10).join(lines_table(results))}

## Speed, in one run

{chr(10).join(speed_section(speed))}

More of it, side by side, with the programs that measure it: [forward passes and tokenizers](results.md#speed), [long texts](results.md#long-texts),
[writing](results.md#writing), [whole fine-tunings](results.md#whole-fine-tunings-side-by-side), [pretraining](results.md#parts-of-pretraining-side-by-side),
[serving](serving.md#what-it-costs). The front page has a [picture](index.md) of them.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for library in ("transformers", "sentence_transformers", "kerasformers", "tf_models_official"):
        parser.add_argument(f"--{library}_python", help=f"of an environment with {library}")
    parser.add_argument("--kerasformers_path", help="of KerasFormers' source, if not installed")
    parser.add_argument("--speed", help="JSON that `tools/benchmark.py --what libraries` wrote")
    arguments = vars(parser.parse_args())
    pythons = {library: arguments.get(f"{library}_python") for library in LIBRARIES}
    pythons |= dict.fromkeys(IN_THIS_ENVIRONMENT, sys.executable)
    file = arguments["speed"]
    speed = json.loads(Path(file).read_text(encoding="utf-8")) if file else None
    with tempfile.TemporaryDirectory() as directory:
        prepared = Path(directory)
        prepare(prepared)
        results = {
            library: run(library, python, arguments.get(f"{library}_path"), prepared)
            for library, python in pythons.items()
            if python
        }
    text = page(results, datetime.date.today(), speed)
    (ROOT / "docs" / "comparison.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
