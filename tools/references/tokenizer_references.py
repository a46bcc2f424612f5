"""Makes what bert_zoo's text stack is measured against, from Hugging Face's Rust tokenizers.

    python tools/references/tokenizer_references.py tables        # "bert" in bert_zoo/text/unicode_tables.json
    python tools/references/tokenizer_references.py golden        # tests/golden/text/references.json.gz

`golden` hashes the ids of the corpora in ../shared/data, too, and needs them. Needs `tokenizers` and `transformers`; neither the package nor its tests do.

`tables` asks the library's BertNormalizer and BertPreTokenizer about every code point, so the
tables hold what the reference does, whatever Unicode versions it was built with: it mixes
several, and differs from ICU's and Python's on a few thousand code points.
"""

from __future__ import annotations

import tempfile
import unicodedata
from functools import partial
from pathlib import Path

import tokenizers
from hugging_face_tokenizers import (
    CODE_POINTS,
    SHARED_DATA,
    bert,
    ids,
    ranges_of,
    run,
    write_answers,
    write_section,
)
from tokenizers.normalizers import NFD, BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from transformers import BertTokenizerFast

# isort: split
# Beside the tests, where hugging_face_tokenizers lets them be found.
import text_samples

HANGUL_SYLLABLES = range(0xAC00, 0xD7A4)


# ---------------------------------------------------------------------------------------------
# Unicode tables
# ---------------------------------------------------------------------------------------------


def write_tables() -> None:
    """Writes the section "bert" of unicode_tables.json."""
    source = f"tokenizers {tokenizers.__version__}, BertNormalizer and BertPreTokenizer"
    tables = {name.lower(): value for name, value in probe_reference().items()}
    write_section("bert", source, tables)


def probe_reference() -> dict[str, str]:
    """Returns every table of the section, in its notation."""

    def normalizer(**switches: bool):
        off = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False}
        return BertNormalizer(**{**off, "lowercase": False, **switches}).normalize_str

    clean, split_cjk = normalizer(clean_text=True), normalizer(handle_chinese_chars=True)
    strip, lower = normalizer(strip_accents=True), normalizer(lowercase=True)
    pre_tokenize = BertPreTokenizer().pre_tokenize_str

    dropped, whitespace, cjk, punctuation, separators = [], [], [], [], []
    stripped, lowered = {}, {}
    for code in CODE_POINTS:
        char = chr(code)
        cleaned = clean(f"a{char}b")
        if cleaned == "ab":
            dropped.append(code)
        elif cleaned == "a b":
            whitespace.append(code)
        elif cleaned != f"a{char}b":
            raise AssertionError(f"clean_text maps {char!a} to something else: {cleaned!a}")
        if split_cjk(char) == f" {char} ":
            cjk.append(code)
        if (result := strip(char)) != char:
            stripped[code] = result
        if (result := lower(char)) != char:
            lowered[code] = result
        pieces = [piece for piece, _ in pre_tokenize(f"a{char}b")]
        if pieces == ["a", char, "b"]:
            punctuation.append(code)
        elif pieces == ["a", "b"]:
            separators.append(code)
    if not set(separators) <= set(whitespace) | set(dropped):
        raise AssertionError("the pre-tokeniser splits at characters that clean_text keeps")

    for code in HANGUL_SYLLABLES:
        if stripped.pop(code) != unicodedata.normalize("NFD", chr(code)):
            raise AssertionError(f"Hangul syllable {code:x} does not decompose by arithmetic")
    nonspacing = [code for code, result in stripped.items() if not result]
    # U+08D4 (class 230) and U+1B44 (class 9) survive stripping; they swap across anything but
    # a starter.
    starters = {c for c in nonspacing if strip(f"\u08d4{chr(c)}\u1b44") == "\u08d4\u1b44"}
    mapping = {code: result for code, result in stripped.items() if result}
    return {
        "DROPPED": ranges_of(dropped),
        "WHITESPACE": ranges_of(whitespace),
        "CJK": ranges_of(cjk),
        "PUNCTUATION": ranges_of(punctuation),
        "NONSPACING": ranges_of(nonspacing),
        "ACCENT_STRIPPED": mapping_of(mapping),
        "LOWERCASE": mapping_of(lowered),
        "COMBINING_CLASS": combining_classes({*dropped}, {*nonspacing} - starters),
    }


def combining_classes(removed: set[int], stripped: set[int]) -> str:
    """Returns `class:ranges` of the marks that canonical decomposition sorts.

    Args:
        removed: code points that never get as far.
        stripped: those of the marks that strip_accents removes.
    """
    decompose = NFD().normalize_str
    # U+0334 has class 1 and U+0345 class 240: one of them swaps with any mark.
    marks = [
        code
        for code in CODE_POINTS
        if code not in removed
        and decompose(chr(code)) == chr(code)
        and (
            decompose(f"{chr(code)}\u0334") != f"{chr(code)}\u0334"
            or decompose(f"\u0345{chr(code)}") != f"\u0345{chr(code)}"
        )
    ]
    classes = {code: unicodedata.combining(chr(code)) for code in marks}
    for left in marks:
        for right in marks:
            pair = chr(left) + chr(right)
            swapped = decompose(pair) != pair
            if swapped != (classes[left] > classes[right]):
                raise AssertionError(f"combining classes of {left:x} and {right:x} differ")
    for code in stripped - classes.keys():
        classes[code] = classes[ord(decompose(chr(code))[0])]
    by_class: dict[int, list[int]] = {}
    for code, value in classes.items():
        by_class.setdefault(value, []).append(code)
    items = []
    for value, codes in sorted(by_class.items()):
        ranges = ranges_of(codes).split()
        # Several items where one would not fit in a line.
        items += [f"{value}:{','.join(ranges[i : i + 7])}" for i in range(0, len(ranges), 7)]
    return " ".join(items)


def mapping_of(mapping: dict[int, str]) -> str:
    """Writes a mapping as runs of a constant difference and single replacements."""
    items, codes, start = [], sorted(mapping), 0
    while start < len(codes):
        length, step = longest_run(mapping, codes, start)
        first, last = codes[start], codes[start + length - 1]
        if length == 1:
            items.append(f"{first:x}:{'.'.join(f'{ord(c):x}' for c in mapping[first])}")
        else:
            suffix = "/2" if step == 2 else ""
            items.append(f"{first:x}-{last:x}{suffix}{ord(mapping[first]) - first:+x}")
        start += length
    return " ".join(items)


def longest_run(mapping: dict[int, str], codes: list[int], start: int) -> tuple[int, int]:
    """Returns (length, step) of the longest run of one difference that begins at `start`."""
    best = (1, 1)
    if len(mapping[codes[start]]) > 1:
        return best
    difference = ord(mapping[codes[start]]) - codes[start]
    for step in (1, 2):
        length = 1
        while start + length < len(codes):
            code = codes[start + length]
            follows = code == codes[start] + length * step
            if not follows or len(mapping[code]) > 1 or ord(mapping[code]) - code != difference:
                break
            length += 1
        best = max(best, (length, step), key=lambda run: run[0])
    return best


# ---------------------------------------------------------------------------------------------
# Reference ids
# ---------------------------------------------------------------------------------------------


def write_golden() -> None:
    """Writes the checked-in answers of the reference."""
    configurations = text_samples.CONFIGURATIONS
    references = {
        "versions": {"tokenizers": tokenizers.__version__},
        "pages": {name: page_checksums(**options) for name, options in configurations.items()},
        "random": {},
        "written": {},
        "corpora": {},
        "truncation": truncation_lengths(),
    }
    with tempfile.TemporaryDirectory() as directory:
        lines = "".join(f"{token}\n" for token in text_samples.stress_vocabulary())
        Path(directory, "vocab.txt").write_text(lines, encoding="utf-8", newline="\n")
        for name, options in configurations.items():
            encode = partial(ids, bert(directory, **options))
            references["random"][name] = text_samples.group_checksums(
                encode(text_samples.random_texts())
            )
            references["written"][name] = encode(text_samples.WRITTEN_TEXTS)
    for vocabulary in ("bert_uncased", "bert_cased"):
        encode = partial(ids, bert(SHARED_DATA / "vocab" / vocabulary))
        references["corpora"][vocabulary] = {
            name: text_samples.checksum(encode(texts))
            for name, texts in text_samples.corpora(SHARED_DATA)
        }
    write_answers("references.json.gz", references)


def page_checksums(lowercase: bool, strip_accents: bool | None, split_cjk: bool) -> list[int]:
    """Returns a checksum of the words in each page of code points."""
    normalize = BertNormalizer(
        lowercase=lowercase, strip_accents=strip_accents, handle_chinese_chars=split_cjk
    ).normalize_str
    split = BertPreTokenizer().pre_tokenize_str
    texts = map(text_samples.page_text, range(text_samples.NUM_PAGES))
    return [text_samples.checksum(word for word, _ in split(normalize(text))) for text in texts]


def truncation_lengths() -> list[list[int]]:
    """Returns [first, second, sequence_length, first kept, second kept] of longest-first pairs."""
    vocabulary = {"[UNK]": 0, "a": 1, "b": 2, "[CLS]": 3, "[SEP]": 4}
    backend = BertTokenizerFast(vocab=vocabulary).backend_tokenizer
    rows = []
    for sequence_length in range(3, 14):
        backend.enable_truncation(sequence_length, strategy="longest_first")
        for first in range(10):
            for second in range(10):
                ids = backend.encode("a " * first, "b " * second).ids
                rows.append([first, second, sequence_length, ids.count(1), ids.count(2)])
    return rows


if __name__ == "__main__":
    run({"tables": write_tables, "golden": write_golden})
