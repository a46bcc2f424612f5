"""Saves tiny models as this version does, for later versions to load: tests/saved_by/VERSION.

python tools/save_release.py        once a release, before its tag; what it wrote is never changed again

Each folder is a model as `bert_zoo.save` writes it, of tests/golden, and `outputs.npz`: texts, and what
`predict` gives for them. The first is there as a .keras file too, with the same outputs.
"""

import shutil
from pathlib import Path

import numpy as np

import bert_zoo

TESTS = Path(__file__).parents[1] / "tests"
TEXTS = ["the cat sat on the tree", "a bird", "we ran to the big red house, and she saw the city"]
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
}


def main() -> None:
    directory = TESTS / "saved_by" / bert_zoo.__version__
    for name, (golden, options) in MODELS.items():
        model = bert_zoo.load(TESTS / "golden" / golden, **options)
        shutil.rmtree(directory / name, ignore_errors=True)
        bert_zoo.save(model, directory / name)
        outputs = model.predict(TEXTS, verbose=0)
        np.savez_compressed(directory / name / "outputs.npz", texts=TEXTS, outputs=outputs)
        if name == next(iter(MODELS)):
            model.save(directory / name / "model.keras")


if __name__ == "__main__":
    main()
