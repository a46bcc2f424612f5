"""Texts and a vocabulary that tokenizers are compared on; shared with tools/references/tokenizer_references.py.

Everything is computed from fixed seeds, so that only the reference's answers are checked in. Only
`Random.random` is used: its sequence is guaranteed not to change between Python versions.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random

PAGE = 1024
NUM_PAGES = 0x110000 // PAGE
RANDOM_TEXTS = 24_000
GROUP = 8

# Options of WordPieceTokenizer that the references exist for.
CONFIGURATIONS = {
    "uncased": {"lowercase": True, "strip_accents": None, "split_cjk": True},
    "cased": {"lowercase": False, "strip_accents": None, "split_cjk": True},
    "uncased_with_accents": {"lowercase": True, "strip_accents": False, "split_cjk": True},
    "cased_without_accents": {"lowercase": False, "strip_accents": True, "split_cjk": False},
}

WRITTEN_TEXTS = [
    "",
    " \t\r\n\u3000\u2029",
    "\x00\x07\ufffd\u200b\ufeff",
    "The quick brown foxes aren't un-affable; they're 3.14% faster!",
    "[MASK] in a text, glued[MASK]on both sides, [mask] and [ MASK ] and [MA\u200bSK].",
    "[CLS] [SEP] [PAD] [UNK] [CLS][SEP]",
    "x" * 100 + " " + "x" * 101 + " " + "é" * 100 + " " + "é" * 101 + " " + "각" * 34,
    "Ein Übergrößenträger läßt grüßen, naïve café Ångström",
    "e\u0301\u0323 q\u0307\u0323 \u0301alone",
    "ΟΔΥΣΣΕΥΣ ὈΔΥΣΣΕΎΣ Σ. ΑΣ",
    "İstanbul'da IĞDIR ısı",
    "Ёлка и йод, ЩЁТКА",
    "한국어 문장입니다. 각각",
    "我喜欢喝茶,但是她喜欢咖啡。𠮷野家 豈更車",
    "ひらがなとカタカナ、ガギグ ｶﾞｷﾞ",
    "हिन्दी में लिखा हुआ वाक्य। தமிழ் கொ",
    "שָׁלוֹם עוֹלָם مَرْحَبًا بالعالَم",
    "ภาษาไทยไม่มีช่องว่าง ລາວ",
    "👩\u200d👩\u200d👧 🇫🇷 ❤\ufe0f 👍🏽 \U0001f6f8",
    "a\ue000b \U000f0000 \U000f0003 [MASK]\U000f0004 \U0010fffd",
    "ᬅᬮ\u1b44ᬧ\u302e\u0301 \U0001d165\u08d4\u1b44 \U0001d15e\u0345",
    "½ ² ™ ﬁ ß ẞ Ǆ ǅ Ⅷ Ⓐ",
    "`a^b~c$d+e<f=g>h|i` ¡hola! «ça» “quoted” —dash… ・ ＡＢＣ！",
    "tabs\tand\nnew\r\nlines\x0bvertical\x0cfeed\x85next",
]


def page_text(page: int) -> str:
    """Returns every code point of a page inside words, at their borders and before marks."""
    codes = (c for c in range(page * PAGE, (page + 1) * PAGE) if not 0xD800 <= c < 0xE000)
    contexts = ("a{0}b {0}a B{0}\u0301c \u08d4{0}\u1b44d {0} 中{0}".format(chr(c)) for c in codes)
    return " ".join(contexts)


def random_texts(count: int = RANDOM_TEXTS, seed: int = 7) -> list[str]:
    """Returns strings of random code points: from everywhere, from one script, of hard cases."""
    random = Random(seed)

    def below(number: int) -> int:
        return int(random.random() * number)

    def anywhere() -> str:
        code = below(0x110000 - 0x800)
        return chr(code if code < 0xD800 else code + 0x800)

    def assigned() -> str:
        return chr((below(0x3400), 0xA000 + below(0xC00), 0xF900 + below(0x600))[below(3)])

    def mark_or_letter() -> str:
        start, size = MARKS_AND_LETTERS[below(len(MARKS_AND_LETTERS))]
        return chr(start + below(size))

    makers = [
        anywhere,
        assigned,
        lambda: chr(0x20 + below(0x230)),
        lambda: HARD_PIECES[below(len(HARD_PIECES))] if below(2) else assigned(),
        mark_or_letter,
        lambda: HARD_PIECES[below(len(HARD_PIECES))] if below(9) == 0 else chr(below(128)),
    ]
    lengths = (0, 1, 2, 3, 5, 8, 13, 30)
    texts = []
    for _ in range(count):
        maker = makers[below(len(makers))]
        texts.append("".join(maker() for _ in range(lengths[below(len(lengths))])))
    return texts


MARKS_AND_LETTERS = [
    *((0x300, 0x70), (0x8D0, 0x30), (0x1B00, 0x100), (0x1D150, 0x30), (0x1E000, 0x30)),
    *((0x61, 26), (0xAC00, 0x2BA4)),
]
HARD_PIECES = [
    *("[MASK]", "[CLS]", "[SEP]", "[UNK]", "[PAD]", "[mask]", "[MAS", "K]", "##", "\u0301", "각"),
    *("\u1b44", "\u08d4", "\u302e", "\U0001d165", "\u200d", "\ufffd", "\x00", " ", "\u3000", "İ"),
    *("Σ", "ς", "\U000f0000", "x" * 101, "é" * 100, "ß", "\u0345", "\u0344", "中", "豈", "'s"),
]


def latin_vocabulary() -> list[str]:
    """Returns the Latin part of the stress vocabulary, without white space, which a file may lose."""
    return [
        token
        for token in stress_vocabulary()
        if max(map(ord, token)) < 0x250 and not any(map(str.isspace, token))
    ]


def stress_vocabulary() -> list[str]:
    """Returns a vocabulary with half of the characters of most scripts, and some longer pieces."""
    codes = [
        *range(0x21, 0x3100, 2),
        *range(0x61, 0x7B),
        *range(0x30, 0x3A),
        *range(0x1100, 0x1200),
    ]
    codes += [*range(0x4E00, 0xA000, 40), *range(0xA000, 0xAC00, 3), *range(0xFB00, 0x10000, 3)]
    codes += [*range(0x10000, 0x1F700, 9), *range(0x20000, 0x2A6E0, 300)]
    characters = [chr(code) for code in dict.fromkeys(codes)]
    words = {word for text in WRITTEN_TEXTS for word in text.split() if 1 < len(word) <= 60}
    words = {word for word in words if "\x00" not in word}
    pieces = sorted({piece for word in words for piece in (word, word.lower(), word[:3], word[:5])})
    tails = sorted({f"##{tail}" for word in words for tail in (word[1:], word[-2:], word[-4:])})
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    return list(
        dict.fromkeys(
            [*tokens, *characters, *(f"##{char}" for char in characters), *pieces, *tails]
        )
    )


def with_xlnet_tokens(model: bytes) -> bytes:
    """ALBERT's SentencePiece model with special tokens of XLNet's names, which are as long."""
    for ours in (b"cls", b"sep", b"mask"):
        model = model.replace(b"[%s]" % ours.upper(), b"<%s>" % ours)
    return model


def corpora(data: Path) -> Iterator[tuple[str, list[str]]]:
    """Yields name and texts of the corpora in shared/data that ids were hashed for."""
    with gzip.open(data / "text" / "tokenizer_texts.json.gz", "rt", encoding="utf-8") as file:
        yield from sorted(json.load(file).items())
    for name in ("abc_news", "wikitext2_part", "movie_reviews"):
        text = (data / "text" / f"{name}.txt").read_text(encoding="utf-8", errors="replace")
        yield name, text.split("\n")[:4000]


def checksum(items: Iterable[object]) -> int:
    """Returns a CRC of the items, printed one per line."""
    return zlib.crc32("\n".join(map(str, items)).encode("utf-8"))


def group_checksums(rows: Sequence[Sequence[int]]) -> list[int]:
    """Returns one checksum for every GROUP rows of ids."""
    return [checksum(map(list, rows[i : i + GROUP])) for i in range(0, len(rows), GROUP)]
