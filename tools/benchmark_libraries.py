"""A forward pass of BERT base, and vectors of texts, in each library of docs/comparison.md.

All read the same random weights and give the vectors of all tokens, so that no library can leave out a part
of the last layer. Vectors of texts are MiniLM's, where a library goes from strings to them in one call.
`forward.py` of `tools/references/peers` is what runs in each library's environment.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import comparison_page
import numpy as np

import bert_zoo

MODEL = "bert_base"
FORWARD = """
import sys
sys.path.insert(0, settings["peers"])
from forward import forward
work = forward(**settings["forward"])
"""


def prepare(folder: Path, vocabulary: Path, rows: int, length: int) -> None:
    """Writes what all are timed with: the model in two formats, and ids.

    Args:
        folder: an empty one.
        vocabulary: BERT's, which libraries want beside the weights.
        rows, length: of the batch.
    """
    bert_zoo.save(bert_zoo.load(MODEL, weights=None), folder / "hf", format="hf")
    shutil.copy(vocabulary, folder / "hf")
    (folder / "tf1").mkdir()
    comparison_page.write_tf1(folder / "hf", folder / "tf1")
    ids = np.random.default_rng(0).integers(1000, 20000, (rows, length), "int32")
    np.savez(
        folder / "inputs.npz",
        token_ids=ids,
        padding_mask=np.ones_like(ids),
        segment_ids=np.zeros_like(ids),
    )


def settings(library: str, folder: Path, threads: int) -> dict[str, Any]:
    """Of `FORWARD`; `folder` is what `prepare` filled."""
    read = "tf1" if library == "tf_models_official" else "hf"
    arguments = {
        "library": library,
        "directory": str(folder / read),
        "inputs": str(folder / "inputs.npz"),
        "found": str(folder / f"{library}.npz"),
        "threads": threads,
    }
    return {"peers": str(comparison_page.PEERS), "forward": arguments}


def found(folder: Path, libraries: Iterable[str]) -> dict[str, dict[str, Any]]:
    """By library its `versions`, and the largest `difference` of its hidden states from ours.

    Raises:
        ValueError: one computed something else.
    """
    results = {}
    ours = np.load(folder / "bert_zoo.npz")["hidden"]
    for library in libraries:
        with np.load(folder / f"{library}.npz") as io:
            difference = float(np.abs(io["hidden"] - ours).max())
            versions = io["versions"].tolist()
        if not difference < comparison_page.READ:
            raise ValueError(
                f"{library}'s hidden states differ by {difference:.1e} from bert_zoo's: it did not read the "
                "weights. See its function in tools/references/peers/exactness.py."
            )
        results[library] = {"versions": versions, "difference": difference}
    return results
