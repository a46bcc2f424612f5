"""Runs what a page of docs/migrating says of another library, and compares what it prints with the page.

The tests run the examples of this package. Those of other libraries are marked with what they ran with,

    <!-- not run: transformers 4.46.3 and tf-keras 2.18.0, which need Keras 2 -->

and are run here, all of a page in one process, in an environment that has these, after the files that the page
takes as given were made with this package:

    python tools/references/migration_guides.py --page docs/migrating/transformers.md --directory made --make
    TF_USE_LEGACY_KERAS=1 their-env/bin/python tools/references/migration_guides.py \
        --page docs/migrating/transformers.md --directory made

google_research.md is run with TensorFlow 1's functions in the place of TensorFlow, in this environment:

    python tools/references/migration_guides.py --page docs/migrating/google_research.md --directory made \
        --tensorflow1 --sources bert        # a clone of google-research/bert

What is made for tf_hub.md has no graph: give it one by saving the same encoder, restored from
tests/golden/model_garden/bert, with Model Garden and Keras 2 to `bert_en`.
"""

import contextlib
import io
import os
import pathlib
import re
import sys

import numpy as np
from absl import app, flags, logging

_PAGE = flags.DEFINE_string("page", None, "The page.", required=True)
_DIRECTORY = flags.DEFINE_string(
    "directory", None, "Where the page's files are; what it saves is left there.", required=True
)
_MAKE = flags.DEFINE_boolean("make", False, "Makes these files, and no more.")
_SOURCES = flags.DEFINE_string("sources", None, "A folder of modules that the page imports.")
_TENSORFLOW1 = flags.DEFINE_boolean(
    "tensorflow1", False, "Runs the page with TensorFlow 1's functions."
)
_FIRST = re.compile(r"^<!-- first\n(.*?)^-->$", flags=re.MULTILINE | re.DOTALL)
_EXAMPLE = re.compile(
    r"^<!-- not run: [^\n]+ -->\n```python\n(.*?)^```$\n+```text\n(.*?)^```$",
    flags=re.MULTILINE | re.DOTALL,
)


def main(argv: list[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"Unexpected arguments: {argv[1:]}.")
    page = pathlib.Path(_PAGE.value).read_text(encoding="utf-8")
    if _SOURCES.value:
        sys.path.insert(0, os.path.abspath(_SOURCES.value))
    os.makedirs(_DIRECTORY.value, exist_ok=True)
    os.chdir(_DIRECTORY.value)
    if _MAKE.value:
        for code in _FIRST.findall(page):
            exec(compile(code, _PAGE.value, "exec"), {})
        return
    if _TENSORFLOW1.value:
        import tensorflow as tf
        from tensorflow1 import TensorFlow1

        tf.compat.v1.disable_v2_tensorshape()  # `shape[-1].value`
        sys.modules["tensorflow"] = TensorFlow1(tf.float32)
    np.set_printoptions(suppress=True)
    names = {}
    for code, printed in _EXAMPLE.findall(page):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(code, _PAGE.value, "exec"), names)
        if output.getvalue().split() != printed.split():
            raise ValueError(f"The page says\n{printed}\nand the program\n{output.getvalue()}")
        logging.info("As the page says:\n%s", printed)


if __name__ == "__main__":
    app.run(main)
