"""Texts and a vocabulary that byte-level BPE is compared on; shared with tools/references/byte_bpe_references.py.

Computed from fixed seeds, as text_samples.py is, so that only the reference's answers are checked in.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random

import text_samples

# Options of ByteBpeTokenizer that the references exist for.
CONFIGURATIONS = {
    "released": {"lstrip_mask": True, "add_prefix_space": False},
    "without_lstrip": {"lstrip_mask": False, "add_prefix_space": False},
    "prefix_space": {"lstrip_mask": True, "add_prefix_space": True},
}

WRITTEN = [
    "",
    " ",
    "\n",
    "Hello world! Don't you'll we've they're I'm he'd it's can't",
    "DON'T 'S 'tis ''s '' 's ' s 's's 'll'll 'l 're're'r 'ddd 'to 'mother x's's1's.'s",
    " 's  's\n's\t'll\u00a0'm\u3000 've 'x rock 'n' roll ' d",
    "  two   three    four     \n\n  lines \n \n  end   ",
    "tabs\t\tand\r\nreturns\x0b\x0c\x1c\x85 \x85x\u00a0y \u00a0z\u2003\u2003w \u200bq",
    "a<mask>b <mask> c  <mask>\n\t<mask><mask> \u3000<mask>. <MASK> < mask> <mask",
    "<s><pad></s><unk><mask>",
    "<s> text </s></s> more </s> <<s>> <s<s>s> <|endoftext|> madeupword0000",
    "3.14159 1,000,000 ½ ²³ Ⅷ ①② ٣٤ 12abc34 a1b2 𝟘𝟙 1st",
    "naïve café Ångström e\u0301 a\u0300\u0301 \u0301x ﬁ ß İ ǅ",
    "我喜欢喝茶,但是她喜欢咖啡。𠮷野家 ひらがな ｶﾞ 한국어 각",
    "हिन्दी में लिखा हुआ தமிழ் שָׁלוֹם مَرْحَبًا ภาษาไทย",
    "👩\u200d👩\u200d👧 🇫🇷 ❤\ufe0f 👍🏽 \U0001f6f8🛸",
    "\ufffd \ufeffbom \ufffe \uffff \U0010ffff \ue000 \U000e0041 \u0378 \U0003ffff \x00\x01\x7f",
    "aaaaaaaaaaaaaaaaaaaaaaaaa ---------------------------- ==== ..... !!!!!!!! ????",
    "http://www.example.com/a?b=c&d=%20 user@mail.org #tag @name $5.00 (x) [y] {z} a_b C++ #!",
    "Ġ ĠĠ Ċ Â Ã© Ł ŀ âĢ ġ",
]

# Where every code point, {0}, is put.
CONTEXTS = {
    "alone": "{0}",
    "in words": "a{0}b 1{0}2 !{0}? {0}{0}",
    "near blanks": " {0} {0}  {0}a  {0} \n{0}\n\n{0}",
    "near apostrophes": "{0}'s {0}'ll'{0} '{0}'re{0}",
    "near special tokens": "{0}<mask>{0} <s>{0} {0} <mask>",
}

ALPHABETS = {
    "contractions": [*"''''stmdrevlSTaé1 .!\n ", "'ll", "'re", "'ve", " '", "  '", "\u2019"],
    "white space": list("    \t\n\r\x0b\x0c\x1c\x85\u00a0\u1680\u2003\u2028\u202f\u3000\u200ba1!'"),
    "special tokens": ["<mask>", "<s>", "</s>", "<pad>", "<unk>", *"<>/smak |  \n\u3000a1"],
    "words": [" the", " and", "ing", "er", "tion", " un", "'s", " 19", "th", " a", ",", ".", " -"],
    "ascii": [chr(code) for code in range(128)],
    "runs": ["a", "aa", "---", "==", " ", "0", "00", "ha", "..", "!", "aaaa", "----"],
    "chinese and japanese": [
        chr(code) for code in (*range(0x4E00, 0x4F00), *range(0x3040, 0x30FF))
    ],
    "marks and numbers": [chr(code) for code in (*range(0x300, 0x330), *range(0x660, 0x66A))]
    + list("aé½²1 '")
    + ["\u0e31", "\u0901", "\U0001d7d8", "\U00010107", "\u2160"],
    "astral": [chr(code) for code in (*range(0x1F300, 0x1F6FF, 7), *range(0x10300, 0x1E000, 97))]
    + [" ", "\u200d", "\ufe0f", "a", "1"],
}


def page_text(page: int) -> str:
    """Returns every code point of a page among letters, numbers, others, blanks and lines."""
    size = text_samples.PAGE
    codes = (c for c in range(page * size, (page + 1) * size) if not 0xD800 <= c < 0xE000)
    return "".join("a{0}b1{0}2!{0}?{0}'s {0} {0}\n{0}".format(chr(code)) for code in codes)


def random_texts(count: int = 8_000, seed: int = 11) -> list[str]:
    """Returns strings of the alphabets, and a quarter of them of random Unicode."""
    random = Random(seed)

    def below(number: int) -> int:
        return int(random.random() * number)

    alphabets = list(ALPHABETS.values())
    lengths = (0, 1, 2, 3, 5, 8, 13, 30, 60)
    texts = text_samples.random_texts(count // 4, seed)
    while len(texts) < count:
        alphabet = alphabets[below(len(alphabets))]
        length = lengths[below(len(lengths))]
        texts.append("".join(alphabet[below(len(alphabet))] for _ in range(length)))
    return texts


def long_texts() -> list[str]:
    """Returns texts of a few very long pieces."""
    random = Random(3)

    def drawn(alphabet: list[str], length: int) -> str:
        return "".join(alphabet[int(random.random() * len(alphabet))] for _ in range(length))

    runs = [char * length for char in "a-= \nx0中" for length in (63, 64, 1000, 2999)]
    letters = [chr(code) for code in range(0x61, 0x7B)]
    mixed = [drawn(alphabet, 1500) for alphabet in ALPHABETS.values()]
    return [*runs, "ab" * 1500, "haha" * 500, drawn(letters, 3000), drawn(["a", "b"], 2000), *mixed]


def own_vocabulary(num_merges: int = 400) -> tuple[list[str], list[tuple[str, str]]]:
    """Returns a small vocabulary and its merges, trained on the written texts in GPT-2's way."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    alphabet = {byte: chr(byte) for byte in visible}
    alphabet |= {byte: chr(0x100 + position) for position, byte in enumerate(hidden)}
    text = " ".join([*WRITTEN, *ALPHABETS["words"] * 3, *ALPHABETS["runs"] * 3])
    # No word of a special token's: those become no tokens by merging.
    words = [word for word in text.replace(" ", "\0 ").split("\0") if "<" not in word]
    spelled = [[alphabet[byte] for byte in word.encode()] for word in words]
    merges: list[tuple[str, str]] = []
    for _ in range(num_merges):
        counts = Counter(pair for word in spelled for pair in pairwise(word))
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        merges.append(best)
        spelled = [_merged(word, best) for word in spelled]
    tokens = dict.fromkeys(["<s>", "<pad>", "</s>", "<unk>", *alphabet.values()])
    tokens |= dict.fromkeys(left + right for left, right in merges)
    return [*tokens, "never merged", "<mask>"], merges


def _merged(word: list[str], pair: tuple[str, str]) -> list[str]:
    result: list[str] = []
    for token in word:
        if result and (result[-1], token) == pair:
            result[-1] = "".join(pair)
        else:
            result.append(token)
    return result


def write_own_files(directory: Path) -> None:
    """Writes the own vocabulary as vocab.json and merges.txt."""
    tokens, merges = own_vocabulary()
    ids = {token: index for index, token in enumerate(tokens)}
    (directory / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    lines = "".join(f"{left} {right}\n" for left, right in merges)
    (directory / "merges.txt").write_text("#version: 0.2\n" + lines, encoding="utf-8")
    config = {"tokenizer_class": "RobertaTokenizer"}
    (directory / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
