"""Saves tiny models as this version does, for later versions to load: tests/saved_by/VERSION.

python tools/save_release.py        once a release, before its tag; what it wrote is never changed again

Each folder is a model of tests/golden as `bert_zoo.save` writes it, or `bert_zoo.export`, or a run directory
of `bert_zoo finetune`; and `outputs.npz`: texts, and what `predict` gives for them. The first is there as a
.keras file too, with the same outputs. A folder that is there already is left as it is.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np

import bert_zoo
import bert_zoo.runtime

TESTS = Path(__file__).parents[1] / "tests"
sys.path.append(str(TESTS))
from installed import outputs_of  # noqa: E402

TEXTS = ["the cat sat on the tree", "a bird", "we ran to the big red house, and she saw the city"]
QUESTIONS = ["where is the bird", "who saw the city"], TEXTS[1:]
# Folder -> golden checkpoint and how it is loaded; what differs from task to task in a saved model.
MODELS = {
    "classification": ("bert/classification", {"task": "classification"}),
    "multi_label": (
        "bert/multi_label_classification",
        {
            "task": "multi_label_classification",
            "thresholds": 0.3,
            "long_texts": "mean",
            "max_length": 16,
        },
    ),
    "byte_level_bpe": ("roberta/classification", {"task": "classification"}),
    "sentence_piece": ("albert/encoder", {"task": "embedding"}),
    "token_classification": ("bert/token_classification", {"task": "token_classification"}),
    "question_answering": ("bert/question_answering", {"task": "question_answering"}),
    "masked_lm": ("bert/masked_lm", {"task": "masked_lm"}),
    "causal_lm": ("gpt2/causal_lm", {"task": "causal_lm"}),
}
# Folder -> one of the above, and the format that it is exported in.
EXPORTS = {
    "exported_litert": ("classification", "litert"),
    "exported_onnx": ("sentence_piece", "onnx"),
}
RUN = "--model golden/bert/classification --task messages --epochs 1 --max_length 16 --noexport"


def main() -> None:
    directory = TESTS / "saved_by" / bert_zoo.__version__
    for name, (golden, options) in MODELS.items():
        if (folder := directory / name).exists():
            continue
        model = bert_zoo.load(TESTS / "golden" / golden, **options)
        bert_zoo.save(model, folder)
        write_outputs(folder, model, QUESTIONS if name == "question_answering" else TEXTS)
        if name == next(iter(MODELS)):
            model.save(folder / "model.keras")
    for name, (saved, format) in EXPORTS.items():
        if not (folder := directory / name).exists():
            bert_zoo.export(bert_zoo.load(directory / saved), folder, format=format)
            write_outputs(folder, bert_zoo.runtime.load(folder), TEXTS)
    if not (folder := directory / "run").exists():
        command = [sys.executable, "-m", "bert_zoo", "finetune", *RUN.split()]
        # Within tests/: a run keeps the path of its model.
        subprocess.run([*command, "--output_dir", folder.relative_to(TESTS)], cwd=TESTS, check=True)
        write_outputs(folder, bert_zoo.load(folder), TEXTS)


def write_outputs(folder: Path, model, texts) -> None:
    np.savez_compressed(folder / "outputs.npz", texts=texts, **outputs_of(model, texts))


if __name__ == "__main__":
    main()
