"""Makes what byte-level BPE is measured against, from Hugging Face's Rust tokenizers.

    python tools/references/byte_bpe_references.py tables       # "byte_bpe" in bert_zoo/text/unicode_tables.json
    python tools/references/byte_bpe_references.py composition  # "composition" in the same, with tensorflow_text
    python tools/references/byte_bpe_references.py golden       # tests/golden/text/byte_bpe.json.gz

Needs `tokenizers` and `transformers`, which neither the package nor its tests do, and for `golden` the
vocabulary and texts in ../shared/data. `tables` asks the library about every code point, so that the
tables hold what the reference does, whatever version of Unicode it was built with.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from hugging_face_tokenizers import (
    CODE_POINTS,
    SHARED_DATA,
    ids,
    ranges_of,
    roberta,
    run,
    write_answers,
    write_section,
)

# isort: split
# Beside the tests, where hugging_face_tokenizers lets them be found.
import byte_bpe_samples as samples
import text_samples


def write_tables() -> None:
    """Writes the section "byte_bpe" of unicode_tables.json."""
    import tokenizers
    from tokenizers.pre_tokenizers import ByteLevel, Digits

    split = ByteLevel(add_prefix_space=False).pre_tokenize_str
    contexts = {"LETTERS": "a{}a", "NUMBERS": "1{}1", "WHITESPACE": "\n{}\n", "": "!{}!"}
    codes: dict[str, list[int]] = {name: [] for name in contexts}
    for code in CODE_POINTS:
        kinds = [name for name, text in contexts.items() if len(split(text.format(chr(code)))) == 1]
        if len(kinds) != 1:
            raise AssertionError(f"U+{code:04X} is of the kinds {kinds}, not of one")
        codes[kinds[0]].append(code)
    tables = {name.lower(): ranges_of(codes[name]) for name in ("LETTERS", "NUMBERS", "WHITESPACE")}
    split = Digits(individual_digits=True).pre_tokenize_str
    tables["digits"] = ranges_of(code for code in CODE_POINTS if len(split(f"a{chr(code)}a")) > 1)
    write_section("byte_bpe", f"tokenizers {tokenizers.__version__}, ByteLevel", tables)


def write_composition() -> None:
    """Writes the section "composition" of unicode_tables.json; needs tensorflow_text."""
    import tensorflow as tf
    import tensorflow_text
    import tokenizers

    def icu(texts: list[str], form: str) -> list[str]:
        return [
            t.decode() for t in tensorflow_text.normalize_utf8(tf.constant(texts), form).numpy()
        ]

    def differing(texts: list[str]) -> list[bool]:
        reference = map(tokenizers.normalizers.NFC().normalize_str, texts)
        return [a != b for a, b in zip(icu(texts, "NFC"), reference, strict=True)]

    characters = [*map(chr, CODE_POINTS)]
    codes = set()
    # A mark of any class moves to one side of these.
    for context in ("a{}\u0327", "a\u0315{}", "a\u0301{}\u0315\u0327"):
        texts = map(context.format, characters)
        codes |= {
            ord(c) for c, differs in zip(characters, differing([*texts]), strict=True) if differs
        }
    # Of parts that are joined, the one that newer scripts brought.
    parts = [text for text in icu(characters, "NFD") if len(text) > 1]
    codes |= {
        ord(max(text)) for text, differs in zip(parts, differing(parts), strict=True) if differs
    }
    source = f"tokenizers {tokenizers.__version__}, tensorflow_text {tensorflow_text.__version__}"
    write_section("composition", source, {"younger": ranges_of(codes)})


def write_golden() -> None:
    """Writes the checked-in answers of the reference."""
    import tokenizers

    references: dict = {"tokenizers": tokenizers.__version__, "own": {}, "real": {}}
    with tempfile.TemporaryDirectory() as directory:
        samples.write_own_files(Path(directory))
        for name, options in samples.CONFIGURATIONS.items():
            encode = partial(ids, roberta(directory, **options))
            references["own"][name] = {
                "written": encode(samples.WRITTEN),
                "random": text_samples.group_checksums(encode(samples.random_texts())),
            }
        encode = partial(ids, roberta(directory))
        pages = map(samples.page_text, range(text_samples.NUM_PAGES))
        references["own"]["pages"] = [text_samples.checksum(encode([page])) for page in pages]
    for name, options in samples.CONFIGURATIONS.items():
        encode = partial(ids, roberta(SHARED_DATA / "vocab" / "roberta", **options))
        references["real"][name] = {
            "written": encode(samples.WRITTEN),
            "random": text_samples.group_checksums(encode(samples.random_texts())),
            "long": text_samples.checksum(encode(samples.long_texts())),
            "corpora": {
                corpus: text_samples.checksum(encode(texts))
                for corpus, texts in text_samples.corpora(SHARED_DATA)
            },
        }
    write_answers("byte_bpe.json.gz", references)


if __name__ == "__main__":
    run({"tables": write_tables, "composition": write_composition, "golden": write_golden})
