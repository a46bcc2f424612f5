"""Makes what added tokens are measured against, from Hugging Face's Rust tokenizers.

    python tools/references/added_token_references.py tables  # "added_tokens" in bert_zoo/text/unicode_tables.json
    python tools/references/added_token_references.py golden  # tests/golden/text/added_tokens.json.gz

Needs `tokenizers` and `transformers`, and for `tables` asks the library about every code point, so that the
table holds what the reference does, whatever version of Unicode it was built with.
"""

from __future__ import annotations

import gzip
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hugging_face_tokenizers import (
    CODE_POINTS,
    GOLDEN,
    ranges_of,
    run,
    write_answers,
    write_section,
)

# isort: split
# Beside the tests, where hugging_face_tokenizers lets them be found.
import byte_bpe_samples
import text_samples

# As add_tokens takes them: a string is found in normalised texts.
SWITCHES = ("single_word", "lstrip", "rstrip", "normalized", "special")
TOKENS: list[tuple[str, dict[str, bool]]] = [
    ("Covid19", {}),
    ("New York", {}),
    ("na\u00efve", {"single_word": True}),
    ("\u00dcber", {"normalized": False, "single_word": True}),
    ("the", {"single_word": True, "lstrip": True, "rstrip": True}),
    ("BERT", {"normalized": False, "rstrip": True}),
    ("york", {"lstrip": True}),
    ("[E1]", {"special": True}),
    ("<ent>", {"special": True, "normalized": False, "lstrip": True}),
    ("ab", {}),
    ("abc", {"single_word": True}),
    ("bcd", {}),
    ("  ", {}),
    ("\u4e2d\u6587", {}),
]
PARTS = [
    *("Covid19", "COVID19", "covid19s", "CO\u0301VID19", "co\u200bvid19", "cov\xadid19"),
    *("New York", "NEW  YORK", "new york", "naive", "NAI\u0308VE", "na\xefve", "\xdcber"),
    *("u\u0308ber", "the", "The", "BERT", "bert", "[E1]", "[e1]", "<ent>", "<ENT>", "ab", "abc"),
    *("abcd", "ABCD", "bcd", "  ", " ", " ", " ", "\t", "\n", "\xa0", "\u3000", "\u200d"),
    *("\u0301", "_", "-", "1", "x", "\xe9", "\u4e2d\u6587", "\u4e2d", "[MASK]", "<mask>", "<s>"),
    *("\ufffd", "\u0130", "\ufb01"),
]


def write_tables() -> None:
    """Writes the section "added_tokens" of unicode_tables.json."""
    import tokenizers
    from tokenizers import AddedToken, Tokenizer, models

    def found(content: str) -> list[bool]:
        tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
        tokenizer.add_tokens([AddedToken(content, single_word=True, normalized=False)])
        texts = [chr(code) + content for code in CODE_POINTS]
        return [1 in encoding.ids for encoding in tokenizer.encode_batch(texts)]

    # The token itself beside the token is found, too; so there are two of them.
    word = (
        c
        for c, *is_found in zip(CODE_POINTS, found("Q"), found("X"), strict=True)
        if not all(is_found)
    )
    write_section(
        "added_tokens",
        f"tokenizers {tokenizers.__version__}, AddedToken",
        {"word": ranges_of(word)},
    )


def bert(directory: Path, **options: bool) -> Any:
    from transformers import BertTokenizer

    lines = (f"{token}\n" for token in text_samples.latin_vocabulary())
    (directory / "vocab.txt").write_text("".join(lines), "utf-8")
    return BertTokenizer.from_pretrained(str(directory), **options)


def roberta(directory: Path) -> Any:
    from transformers import RobertaTokenizer

    byte_bpe_samples.write_own_files(directory)
    return RobertaTokenizer.from_pretrained(str(directory))


def xlm_roberta(directory: Path) -> Any:
    from transformers import XLMRobertaTokenizer

    model = gzip.decompress((GOLDEN / "xlm_roberta_small.model.gz").read_bytes())
    (directory / "sentencepiece.bpe.model").write_bytes(model)
    return XLMRobertaTokenizer.from_pretrained(str(directory))


CASES: dict[str, Callable[[Path], Any]] = {
    "uncased": lambda directory: bert(directory, do_lower_case=True),
    "cased": lambda directory: bert(directory, do_lower_case=False),
    "roberta": roberta,
    "xlm_roberta": xlm_roberta,
}


def write_golden() -> None:
    """Writes the entries of the added tokens, and texts with the ids and offsets of each case."""
    from tokenizers import AddedToken

    draw = random.Random(0)
    texts = ["".join(draw.choices(PARTS, k=draw.randrange(9))) for _ in range(150)]
    answers: dict[str, Any] = {"texts": texts, "cases": {}}
    for name, make in CASES.items():
        with tempfile.TemporaryDirectory() as directory:
            made = make(Path(directory))
            made.add_tokens([AddedToken(content, **given) for content, given in TOKENS])
            made.save_pretrained(directory)
            read = type(made).from_pretrained(directory)
        entries = {
            index: {"content": token.content, **{s: getattr(token, s) for s in SWITCHES}}
            for index, token in sorted(read.added_tokens_decoder.items())
        }
        encoded = read.backend_tokenizer.encode_batch(texts, add_special_tokens=False)
        answers["cases"][name] = {
            "entries": entries,
            "ids": [encoding.ids for encoding in encoded],
            "offsets": [encoding.offsets for encoding in encoded],
        }
    write_answers("added_tokens.json.gz", answers)


if __name__ == "__main__":
    run({"tables": write_tables, "golden": write_golden})
