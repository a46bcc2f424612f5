"""What transformers' activation functions give, by their names in config.json."""

import pathlib

import numpy as np
import torch
from transformers.activations import ACT2FN

# They have weights, which no class of these families keeps.
WITH_WEIGHTS = {"prelu", "xielu"}


def make_activations(path: pathlib.Path) -> None:
    x = np.linspace(-12, 12, 97, dtype=np.float32)
    wide = torch.from_numpy(x).double()
    names = sorted(set(ACT2FN) - WITH_WEIGHTS)
    values = {name: ACT2FN[name](wide).numpy().astype(np.float32) for name in names}
    np.savez_compressed(path, x=x, **values)
