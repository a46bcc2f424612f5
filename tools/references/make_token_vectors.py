"""Writes tests/golden/token_vectors.npz: token vectors pooled and compared by sentence-transformers.

pip install sentence-transformers==6.2.0
python tools/references/make_token_vectors.py --output_dir tests/golden
"""

from pathlib import Path

import numpy as np
import torch
from absl import app, flags
from sentence_transformers.multi_vector_encoder.modules.token_pooling import (
    HierarchicalTokenPooling,
)
from sentence_transformers.util import maxsim

_OUTPUT = flags.DEFINE_string("output_dir", None, "Where to write.", required=True)
SIZE = 16
QUERY_LENGTHS, DOCUMENT_LENGTHS = (3, 8, 1), (23, 5, 1, 12)
FACTORS = (1, 1.5, 2, 4, 100)


def main(_: list[str]) -> None:
    rng = np.random.default_rng(0)
    values = {"query_lengths": QUERY_LENGTHS, "document_lengths": DOCUMENT_LENGTHS}
    tensors = {}
    for name, lengths in (("queries", QUERY_LENGTHS), ("documents", DOCUMENT_LENGTHS)):
        vectors = rng.normal(size=(sum(lengths), SIZE)).astype("float32")
        values[name] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        tensors[name] = torch.split(torch.from_numpy(values[name]), lengths)
    values["maxsim"] = maxsim([*tensors["queries"]], [*tensors["documents"]]).numpy()
    for factor in FACTORS:
        pooling = HierarchicalTokenPooling(factor)
        values[f"pooled_{factor}"] = pooling.pool_one(tensors["documents"][0]).numpy()
    np.savez_compressed(Path(_OUTPUT.value) / "token_vectors.npz", **values)


if __name__ == "__main__":
    app.run(main)
