"""Tokenizers and texts that offsets are compared on; shared with tools/references/offset_references.py.

Computed from fixed seeds, as text_samples.py is, so that only the reference's answers are checked in.
"""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import byte_bpe_samples
import text_samples

GOLDEN = Path(__file__).resolve().parent / "golden" / "text"
SHARED_DATA = GOLDEN.parents[3] / "shared" / "data"


class Case(NamedTuple):
    """A tokenizer, with the options of tokenizer_from_dir."""

    family: str
    vocabulary: str  # one of OWN_VOCABULARIES, or a folder of SHARED_DATA / "vocab"
    options: dict[str, bool | None]
    has_reference_ids: bool = True


def write_stress_vocabulary(directory: Path) -> None:
    lines = "".join(f"{token}\n" for token in text_samples.stress_vocabulary())
    (directory / "vocab.txt").write_text(lines, encoding="utf-8", newline="\n")


def write_xlm_roberta_model(directory: Path) -> None:
    model = gzip.decompress((GOLDEN / "xlm_roberta_small.model.gz").read_bytes())
    (directory / "sentencepiece.bpe.model").write_bytes(model)


def write_word_bpe(directory: Path) -> None:
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(GOLDEN.parent / "word_bpe" / name, directory)


OWN_VOCABULARIES: dict[str, Callable[[Path], None]] = {
    "stress": write_stress_vocabulary,
    "byte_bpe": byte_bpe_samples.write_own_files,
    "xlm_roberta_small": write_xlm_roberta_model,
    "word_bpe": write_word_bpe,
}
CASES = {
    **{
        name: Case("bert", "stress", options)
        for name, options in text_samples.CONFIGURATIONS.items()
        if name != "cased"  # the released vocabulary is
    },
    **{
        f"byte_bpe_{name}": Case("roberta", "byte_bpe", options)
        for name, options in byte_bpe_samples.CONFIGURATIONS.items()
        if name != "without_lstrip"
    },
    "xlm_roberta_small": Case("xlm_roberta", "xlm_roberta_small", {}, has_reference_ids=False),
    "bert_uncased": Case("bert", "bert_uncased", {}),
    "bert_cased": Case("bert", "bert_cased", {}),
    "roberta": Case("roberta", "roberta", byte_bpe_samples.CONFIGURATIONS["released"]),
    "albert": Case(
        "albert",
        "albert",
        {"rewrite_quotes": True, "special_tokens_in_text": True},
        has_reference_ids=False,
    ),
}


def vocabulary_directory(case: Case, scratch: Path) -> Path:
    """Returns the directory with a case's vocabulary; written to `scratch` where it is our own."""
    if case.vocabulary not in OWN_VOCABULARIES:
        return SHARED_DATA / "vocab" / case.vocabulary
    OWN_VOCABULARIES[case.vocabulary](scratch)
    return scratch


def text_sets(case: Case) -> Iterator[tuple[str, list[str]]]:
    """Yields names and texts that the checked-in answers are for."""
    yield "written", [*text_samples.WRITTEN_TEXTS, *byte_bpe_samples.WRITTEN]
    yield "marks", mark_texts(400)
    yield "random", text_samples.random_texts(400)
    if case.vocabulary not in OWN_VOCABULARIES:
        corpora = [texts for _, texts in text_samples.corpora(SHARED_DATA)]
        yield "corpora", [text for texts in corpora for text in texts[::40]]


def mark_texts(count: int) -> list[str]:
    """Returns random strings of marks, letters, and characters that decompose into several."""
    random = Random(23)

    def below(number: int) -> int:
        return int(random.random() * number)

    def some() -> str:
        kind = KINDS[below(len(KINDS))]
        first, last = kind[below(len(kind))]
        return chr(first + below(last - first + 1))

    return [
        "".join(some() if below(4) else PIECES[below(len(PIECES))] for _ in range(1 + below(12)))
        for _ in range(count)
    ]


MARKS = [
    *((0x300, 0x36F), (0x591, 0x5BD), (0x610, 0x61A), (0x64B, 0x65F), (0x8D0, 0x8FF)),
    *((0x93C, 0x94D), (0xCBC, 0xCCD), (0xE31, 0xE3A), (0xF71, 0xF84), (0x1AB0, 0x1ACE)),
    *((0x1B34, 0x1B44), (0x1DC0, 0x1DFF), (0x20D0, 0x20F0), (0x302A, 0x302F), (0x3099, 0x309A)),
    *((0x1D15E, 0x1D172), (0x1E000, 0x1E02A)),
]
DECOMPOSED = [
    *((0xC0, 0x17F), (0xCC0, 0xCCB), (0x1B06, 0x1B43), (0x1E00, 0x1FFF), (0x2150, 0x218B)),
    *((0x3300, 0x33FF), (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFB00, 0xFB4F), (0xFF00, 0xFFEF)),
]
LETTERS = [(0x20, 0x7E), (0x391, 0x3C9), (0x4E00, 0x4E20), (0x1F460, 0x1F480)]
KINDS = [MARKS, DECOMPOSED, LETTERS]
PIECES = [
    *("[MASK]", "<mask>", "[SEP]", "</s>", " ", "  ", "a", "e\u0301", "İ", "Σ", "ΑΣ ", "'s", "``"),
    *("\x00", "\u200d", "\ufffd", "\u00a0", "\u3000", "\u2581", "1,", ".", "中", "\U000f0000"),
]


def checksums(case: Case, rows: list[list[list[int]]]) -> list[list[int]]:
    """Returns a checksum of the ids and one of the offsets of every text, or of several at once.

    Args:
        case: where ids need not be the reference's, every text counts by itself.
        rows: ids, starts and ends of each text.
    """
    group = 8 if case.has_reference_ids else 1
    return [
        [
            text_samples.checksum(row[0] for row in rows[i : i + group]),
            text_samples.checksum(row[1:] for row in rows[i : i + group]),
        ]
        for i in range(0, len(rows), group)
    ]
