"""Turns on oneDNN, Intel's library of matrix products and fused layers, which TensorFlow leaves off on some processors.

TensorFlow 2.21 uses it by default only on x86 processors with VNNI, AMX or bfloat16 (`IsMklEnabled` in
tensorflow/core/util/util.cc), but it is also faster on others: docs/measured/training.md. TensorFlow reads the
variable once, when it is imported.
"""

import logging
import os
import platform
import sys

from bert_zoo.private import uses_onednn

VARIABLE = "TF_ENABLE_ONEDNN_OPTS"

log = logging.getLogger("bert_zoo")


def use_onednn() -> None:
    """Makes TensorFlow use oneDNN, unless the environment sets it; says so if TensorFlow is already imported without."""
    if platform.machine().lower() not in ("x86_64", "amd64") or VARIABLE in os.environ:
        return
    if sys.modules.get("tensorflow") is None:
        os.environ[VARIABLE] = "1"
    elif not uses_onednn():
        log.warning(
            "TensorFlow was imported before bert_zoo and does not use oneDNN on this processor, so a training step may "
            "take 1.2 to 1.7 times as long. Import bert_zoo first, or set the environment variable %s=1; 0 hides this "
            "message.",
            VARIABLE,
        )
