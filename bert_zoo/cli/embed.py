"""Gives the vectors of sentences.

bert_zoo embed "How do I get my money back?" "I would like a refund."
bert_zoo embed --model bge_small --output vectors.npy < sentences.txt

Texts are arguments, or stand one a line on standard input. Vectors are printed as JSON Lines, a text and
its vector in each, or written to a NumPy file.
"""

import json
import sys
from itertools import islice
from pathlib import Path

from bert_zoo.cli.program import Program

PROGRAM = Program(__doc__, takes_arguments=True)
_MODEL = PROGRAM.string("model", "minilm_l6", "A name that `bert_zoo list` prints, or a directory.")
_OUTPUT = PROGRAM.string("output", None, "A .npy file to write: float32 [texts, hidden].")
_BATCH_SIZE = PROGRAM.integer("batch_size", 32, "Texts of a step.", lower_bound=1)
# Texts that are read before vectors are given.
_AT_A_TIME = 1024


def main(arguments: list[str]) -> None:
    output = Path(_OUTPUT.value) if _OUTPUT.value else None
    if output is not None and output.suffix != ".npy":
        raise ValueError(f"--output is {output}; name a NumPy file, such as vectors.npy.")
    texts = iter(arguments or (line.rstrip("\n") for line in sys.stdin))
    some = list(islice(texts, _AT_A_TIME))
    if not some:
        raise ValueError("Give texts as arguments, or one a line on standard input.")
    import numpy as np

    import bert_zoo

    model = bert_zoo.load(_MODEL.value)
    if not hasattr(model, "embed"):
        raise ValueError(
            f"{_MODEL.value} is a model of task {model.task!r}, which gives no sentence vectors. "
            "`bert_zoo list --provides embedding` names those that do."
        )
    parts = []
    while some:
        vectors = model.embed(some, batch_size=_BATCH_SIZE.value)
        if output is None:
            for text, vector in zip(some, vectors.tolist(), strict=True):
                print(json.dumps({"text": text, "vector": vector}, ensure_ascii=False))
        else:
            parts.append(vectors)
        some = list(islice(texts, _AT_A_TIME))
    if output is not None:
        vectors = np.concatenate(parts)
        np.save(output, vectors)
        print("Wrote {:,} vectors of {} numbers to {}.".format(*vectors.shape, output))
