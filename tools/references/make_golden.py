"""Makes golden checkpoints and outputs under tests/golden, with Hugging Face transformers as the reference.

`<family>/<case>/` is a tiny checkpoint with seeded random weights, for a task or a quirk of released files, written as
the files in circulation are, with inputs and the outputs (and some gradients) that transformers computes after
loading that very directory. What a case shows stands in `<family>/cases.json`, which is written by hand, and how it
is made in `golden_families.py`. tests/golden/README.md says how the files of other references were made.

Neither the package nor its tests need torch or transformers; this tool does, in an environment of its own:

    python -m venv golden-env
    golden-env/bin/pip install torch transformers safetensors sentencepiece protobuf
    golden-env/bin/python tools/references/make_golden.py --cases=modernbert
"""

import argparse
import json
import pathlib
import shutil

import numpy
import safetensors
import torch
import transformers
from golden_case import GOLDEN, listed_cases, make_case, write_json
from golden_families import FAMILIES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output_dir", default=GOLDEN, type=pathlib.Path)
    parser.add_argument(
        "--cases", required=True, help="families or cases ('modernbert/encoder'), with commas"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)  # the same order of summation on every machine
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()

    everything = {
        name: listed_cases(GOLDEN / name / "cases.json", of) for name, of in FAMILIES.items()
    }
    names = {f"{name}/{case.name}" for name, cases in everything.items() for case in cases}
    wanted = set(options.cases.split(","))
    if unknown := sorted(wanted - names - {*FAMILIES}):
        parser.error(f"unknown cases {unknown}; there are {sorted(names)}")
    for name, cases in everything.items():
        made = [case for case in cases if wanted & {name, f"{name}/{case.name}"}]
        for case in made:
            directory = options.output_dir / name / case.name
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True)
            make_case(FAMILIES[name], case, directory)
            print(f"{name}/{case.name}: done.", flush=True)
        if made:
            listing = json.loads((GOLDEN / name / "cases.json").read_text())
            libraries = (numpy, safetensors, torch, transformers)
            versions = {library.__name__: library.__version__ for library in libraries}
            listing["made_with"] = listing.get("made_with", {}) | versions
            write_json(options.output_dir / name / "cases.json", listing)


if __name__ == "__main__":
    main()
