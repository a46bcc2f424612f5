"""Makes what the offsets of tokens are measured against, from Hugging Face's Rust tokenizers.

    python tools/references/offset_references.py                         # tests/golden/text/offsets.json.gz

Cases are those of tests/offset_samples.py. Needs `tokenizers` and `transformers`, which neither the package
nor its tests do, and ../shared/data.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hugging_face_tokenizers
from hugging_face_tokenizers import write_answers

# isort: split
# Beside the tests, where hugging_face_tokenizers lets them be found.
import offset_samples as samples

Answer = list[list[int]]  # ids, starts, ends
Encoder = Callable[[list[str]], list[Answer]]


def encoder(case: samples.Case) -> Encoder:
    """Returns the reference as a function from texts to ids, starts and ends."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = str(samples.vocabulary_directory(case, Path(scratch)))
        backend = hugging_face_tokenizers.MAKERS[case.family](directory, **case.options)
    return lambda texts: [
        [encoding.ids, *([offset[i] for offset in encoding.offsets] for i in range(2))]
        for encoding in hugging_face_tokenizers.encode(backend, texts)
    ]


def write_golden() -> None:
    """Writes the checked-in answers of the reference."""
    import tokenizers

    references: dict[str, Any] = {"tokenizers": tokenizers.__version__}
    for name, case in samples.CASES.items():
        encode = encoder(case)
        references[name] = {
            kind: samples.checksums(case, encode(texts)) for kind, texts in samples.text_sets(case)
        }
    write_answers("offsets.json.gz", references)


if __name__ == "__main__":
    write_golden()
