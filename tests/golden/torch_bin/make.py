"""Writes the PyTorch files of this directory and the arrays that they hold; needs torch.

    python tests/golden/torch_bin/make.py

The files go with `tests/test_torch_bin.py`. Both file formats hold the same tensors: every storage
type, strided views, views with an offset, a storage shared by two names (tied weights), parameters,
empty and zero-dimensional tensors.
"""

from collections import OrderedDict
from pathlib import Path

import numpy as np
import torch

HERE = Path(__file__).parent


def tensors() -> OrderedDict:
    torch.manual_seed(0)
    base = torch.randn(6, 5)
    state = OrderedDict(torch.nn.Linear(3, 2).state_dict())
    state |= {
        "embeddings.weight": base,
        "decoder.weight": base,
        "transposed": base.t(),
        "rows_2_to_4": base[2:4],
        "every_second_column": base[:, ::2],
        "parameter": torch.nn.Parameter(torch.randn(4)),
        "half": torch.tensor([1.5, -2.0, 6e-8, 65504.0, float("inf")], dtype=torch.float16),
        "bfloat16": torch.tensor([1.5, -3.25, 1e-40, 3e38, float("-inf")], dtype=torch.bfloat16),
        "bfloat16_transposed": torch.randn(2, 3).bfloat16().t(),
        "double": torch.randn(2, dtype=torch.float64),
        "long": torch.arange(3)[None],
        "int": torch.tensor([-1, 2**31 - 1], dtype=torch.int32),
        "short": torch.tensor([-1, 2], dtype=torch.int16),
        "char": torch.tensor([-1, 2], dtype=torch.int8),
        "byte": torch.tensor([255, 2], dtype=torch.uint8),
        "bool": torch.tensor([True, False, True]),
        "scalar": torch.tensor(7),
        "empty": torch.zeros(0, 3),
    }
    return state


def array(tensor: torch.Tensor) -> np.ndarray:
    half = tensor.dtype in (torch.float16, torch.bfloat16)
    return (tensor.detach().float() if half else tensor.detach()).contiguous().numpy()


def main() -> None:
    state = tensors()
    np.savez_compressed(HERE / "expected.npz", **{key: array(t) for key, t in state.items()})
    torch.save(state, HERE / "zip.bin")
    torch.save(state, HERE / "stream.bin", _use_new_zipfile_serialization=False)
    training = {"epoch": 3, "best": 0.5, "optimizer": {"state": {0: {"m": torch.ones(2)}}}}
    torch.save({"model": state, **training}, HERE / "nested.bin")
    torch.save({"state_dict": state, **training}, HERE / "protocol_4.bin", pickle_protocol=4)


if __name__ == "__main__":
    main()
