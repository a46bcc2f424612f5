"""Makes tests/golden/cross_encoder: what sentence-transformers writes beside a cross-encoder.

`modules.json` and `config_sentence_transformers.json` beside `tests/golden/bert/regression`, and `scores.npz`:
`linear` and `sigmoid`, float32 [texts], of `QUERY` with each of `TEXTS` by either activation; `logits` [queries, 2] of
each of `QUERIES` with the document in the same row of `TEXTS` and that in the next row, and its losses of them. In an environment with
torch and sentence-transformers 6:

    python tools/references/make_reranker.py --output_dir tests/golden
"""

import pathlib
import shutil

import numpy as np
import torch
from golden_files import empty_directory, make_all
from sentence_transformers import CrossEncoder
from sentence_transformers.cross_encoder import losses

BASE = "bert/regression"
# As tests/test_reranking.py has it, and tests/helpers.py.
QUERY = "the big city"
TEXTS = ["the cat sat on the tree", "a bird", "we ran to the big red house, and she saw the city"]
QUERIES = [QUERY, "a tree", "the red house"]
LABELS, MARGINS, SCALE = [1.0, 0.0, 0.25], [0.5, -1.0, 2.0], 3.0
OWN_FILES = ("modules.json", "config_sentence_transformers.json")
ACTIVATIONS = {"linear": torch.nn.Identity(), "sigmoid": torch.nn.Sigmoid()}


def make(name: str, activation: str, golden: pathlib.Path) -> None:
    model = CrossEncoder(
        str(golden / BASE), activation_fn=ACTIVATIONS[activation], device="cpu", max_length=20
    )
    pairs = [(QUERY, text) for text in TEXTS]
    scores = {key: model.predict(pairs, activation_fn=f) for key, f in ACTIVATIONS.items()}
    scores |= values_of_losses(model)
    directory, whole = golden / name, golden / "whole"
    empty_directory(directory)
    model.save(str(whole))
    for file in OWN_FILES:
        shutil.move(whole / file, directory / file)
    shutil.rmtree(whole)
    np.savez(directory / "scores.npz", **scores)
    print(name, scores)


def values_of_losses(model: CrossEncoder) -> dict[str, np.ndarray]:
    """What its losses are without dropout."""
    model.eval()
    columns = [QUERIES, TEXTS, [*TEXTS[1:], TEXTS[0]]]
    softmax = losses.MultipleNegativesRankingLoss(model, scale=SCALE, activation_fn=None)
    logits = [softmax.call_model_with_columns(columns[0], column) for column in columns[1:]]
    labels, margins = torch.tensor(LABELS), torch.tensor(MARGINS)
    found = {
        "logits": torch.stack(logits, dim=1),
        "pairs": losses.BinaryCrossEntropyLoss(model)(columns[:2], labels),
        "softmax": softmax.calculate_loss(logits, len(QUERIES)),
        "margins": losses.MarginMSELoss(model)(columns, margins),
        "teacher": losses.MarginMSELoss(model)(columns, torch.stack([labels, margins], dim=1)),
    }
    return {key: value.detach().numpy() for key, value in found.items()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    make_all(__doc__, {"cross_encoder": "linear"}, make)
