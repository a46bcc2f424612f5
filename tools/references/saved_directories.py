"""Has transformers read the directories that `bert_zoo.save(model, directory, format="hf")` writes.

    python tools/references/saved_directories.py write DIRECTORY [FAMILY ...]
    reference-env/bin/python tools/references/saved_directories.py read DIRECTORY

`write` saves the golden cases of the families, of all by default. `read`, in an environment with torch and
transformers (see make_golden.py), opens each by the class that its config.json names, and prints a line a
family: how many directories, and the largest difference of the outputs from those of the golden files,
which bert_zoo gives too. It stops where a key is missing, left over or of another shape.
"""

import json
import sys
from pathlib import Path

import numpy as np
from golden_files import GOLDEN
from hugging_face_tokenizers import run

# Of the golden files' outputs, of numbers in double precision.
TOLERANCE = 1e-5


def write(directory: str, *families: str) -> None:
    """Saves the cases of families below a directory."""
    from helpers import CASES, family_of, load_case

    import bert_zoo

    for case in CASES:
        if not families or family_of(case) in families:
            bert_zoo.save(load_case(case), Path(directory, case), format="hf")


def read(directory: str) -> None:
    """Reads what is there, and compares."""
    import torch
    import transformers
    from golden_case import listed_cases
    from golden_families import FAMILIES

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    for name, family in FAMILIES.items():
        differences = {}
        for case in listed_cases(GOLDEN / name / "cases.json", family):
            saved, original = Path(directory, name, case.name), GOLDEN / name / case.name
            # Others are the originals', whose heads transformers does not have.
            if saved.is_dir() and hasattr(transformers, case.model_class):
                model = _opened(saved, case.model_arguments)
                with np.load(original / "io.npz") as arrays:
                    differences[case.name] = _difference(family, case, model, dict(arrays))
        if differences:
            print(f"{name}: {len(differences)} directories, {max(differences.values()):.1e}")
        far = {case: value for case, value in differences.items() if value > TOLERANCE}
        if far:
            sys.exit(f"Outputs differ from the golden files': {far}.")


def _opened(directory: Path, arguments: dict):
    """The model of a directory, in evaluation mode and float64."""
    import torch
    import transformers

    (class_name,) = json.loads((directory / "config.json").read_text())["architectures"]
    model, info = getattr(transformers, class_name).from_pretrained(
        directory,
        output_loading_info=True,
        dtype=torch.float32,
        attn_implementation="eager",
        **arguments,
    )
    if problems := {kind: found for kind, found in info.items() if found}:
        sys.exit(f"{directory} as {class_name}: {problems}.")
    return model.double().eval()


def _difference(family, case, model, arrays: dict[str, np.ndarray]) -> float:
    """The largest of all outputs that a golden file has."""
    import golden_case
    import torch

    inputs = {n: v for n, v in arrays.items() if v.dtype == np.int32 and n != "labels"}
    if case.task == "causal_lm":
        with torch.no_grad():
            logits = model(**golden_case.torch_inputs(inputs)).logits
        outputs = {"vocab_log_probs": torch.log_softmax(logits, -1).numpy()}
    else:
        outputs = golden_case.reference_outputs(family, case, model, inputs)
    return max(float(np.abs(value - arrays[name]).max()) for name, value in outputs.items())


if __name__ == "__main__":
    run({"write": write, "read": read})
