"""Forward passes of an encoder in a library, as its users run it: traced by TensorFlow, or in torch without gradients.

Runs in an environment with that library. `tools/benchmark_libraries.py` starts it.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import exactness
import features
import numpy as np

ON_TORCH = ("transformers", "sentence_transformers")
# What a library's time depends on, if it is there.
BENEATH = ("tensorflow", "torch", "keras", "tf_keras", "transformers")


def forward(
    library: str, directory: str, inputs: str, found: str, threads: int
) -> Callable[[], np.ndarray]:
    """A function that gives the hidden states once.

    Args:
        library: a function of `exactness.py`.
        directory: of the checkpoint.
        inputs: an .npz of arrays that are named as ours.
        found: where the `hidden` states and the `versions` are written, an .npz.
        threads: of TensorFlow or torch.
    """
    with np.load(inputs) as io:
        given = dict(io)
    load = getattr(exactness, library)
    if library in ON_TORCH or os.environ.get("KERAS_BACKEND") == "torch":
        import torch

        torch.set_num_threads(threads)
        run = torch.inference_mode()(load(Path(directory), "encoder"))
    else:
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
        run = tf.function(load(Path(directory), "encoder"), autograph=False)
        given = {name: tf.constant(ids) for name, ids in given.items()}

    def work() -> np.ndarray:
        return np.asarray(run(given)["sequence_output"])

    modules = (sys.modules[name] for name in BENEATH if name in sys.modules and name != library)
    versions = [features.version_of(library)]
    versions += [f"{module.__name__} {module.__version__}" for module in modules]
    np.savez(found, hidden=work(), versions=versions)
    return work
