"""Makes tests/golden/word_bpe: a small vocabulary of XLM's kind, and the ids that transformers gives with it.

In the environment of `make_golden.py`, with sacremoses in it:

    golden-env/bin/pip install sacremoses==0.2.0
    golden-env/bin/python tools/references/word_bpe_references.py --data_dir ../shared/data

`ids.json` has whole texts with their ids by language; `checksums.npz` for each language 16 bits of the ids'
CRC-32 of every line of tokenizer_texts.json.gz that is in `lines`.
"""

import gzip
import json
import pathlib
import zlib

import numpy as np
from absl import app, flags
from transformers import XLMTokenizer
from word_merges import learn

_DATA_DIR = flags.DEFINE_string("data_dir", "../shared/data", "Real data with text/ in it.")
_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", "tests/golden/word_bpe", "Directory that receives the files."
)
SPECIAL = ("<s>", "</s>", "<pad>", "<unk>", *(f"<special{number}>" for number in range(10)))
# (Language, whether words are lower-cased), of lines; and of the texts below.
OF_LINES = (
    *(("en", True), ("en", False), ("de", True), ("fr", False), ("it", True), ("es", True)),
    *(("ro", True), ("ko", False), ("ru", True), ("el", True), ("cs", False), ("vi", True)),
)
TEXTS = (
    "",
    "   ",
    "Hello, world!",
    "The U.S. economy grew 3.5% (see p. 5), i.e. No. 7 of Art. 12. It rose.",
    "No. Nobody came. Mr. Smith's dog isn't here, 'tis said.",
    "He said ``yes'' and \"no\", then ... nothing.... Wait..",
    "A,B,C and 1,000,000 or 5, 6,x 7,",
    "D'où vient l'homme? L'été «chaud» de 3 000 ans, n° 5 % : oui ; non !",
    "Z.B. das Haus, d.h. „hier“, am 3. Mai usw. Dr. Müller kam.",
    "dell'arte e po' di 5's 90's rock'n'roll",
    "naïve café — coöperate – Ångström ÀÉÎ",
    "ΟΔΥΣΣΕΥΣ ΣΑΣ. Σ",
    "İstanbul I ı İ",
    "全角（１２３）：ｔｅｓｔ！？；，。 そう、「引用」",
    "한국어 문장입니다. 좋다",
    "नमस्ते दुनिया। कैसे हो?",
    "a\tb\nc\r\nd\u00a0e\u2003f\u200bg\ufeffh",
    "email@site.com http://a.b/c?d=e&f #tag @user $5 €6 50% a/b a-b a--b _x_ [y] {z} <w> |v| ~u \\t",
    "ş Ş ţ Ţ ă â î Ș ț",
    "<special1> is a mask</s>, and <special1>",
    "👍🏽 emoji 🇩🇪 \U00010348 \ue000 x",
    ".' ' .'",
    "end.'",
    "x . y .z a.b. c.d",
    "5' 6'a a'5 'a' b's'",
)
OF_TEXTS = ("en", "de", "fr", "it", "es", "ro", "ko", "cs", "xx")


def main(argv: list[str]) -> None:
    path = pathlib.Path(_DATA_DIR.value) / "text/tokenizer_texts.json.gz"
    groups = json.loads(gzip.decompress(path.read_bytes()))
    lines = [*groups["udhr"], *groups["single32"], *groups["glue"][:200]]
    words = [word for line in lines for word in (*line.lower().split(), *line.split())]
    characters, merges = learn(words, merges=400, characters=700)
    # Of what merges make, a part is no token, as in the released vocabularies.
    made = ["".join(pair) for number, pair in enumerate(merges) if number % 7]
    tokens = dict.fromkeys([*SPECIAL, *characters, *made])
    output = pathlib.Path(_OUTPUT_DIR.value)
    output.mkdir(parents=True, exist_ok=True)
    ids = {token: number for number, token in enumerate(tokens)}
    (output / "vocab.json").write_text(json.dumps(ids, ensure_ascii=False))
    # fastBPE's files say how often a pair occurred.
    (output / "merges.txt").write_text("".join(f"{a} {b} 1\n" for a, b in merges))
    files = (str(output / "vocab.json"), str(output / "merges.txt"))
    by_case = {
        lowercase: XLMTokenizer(*files, do_lowercase_and_remove_accent=lowercase)
        for lowercase in (True, False)
    }

    def of(text: str, language: str, lowercase: bool) -> list[int]:
        tokenizer = by_case[lowercase]
        return tokenizer.convert_tokens_to_ids(tokenizer._tokenize(text, lang=language))

    found = {
        f"{language}{'' if lowercase else ' cased'}": [of(t, language, lowercase) for t in TEXTS]
        for language in OF_TEXTS
        for lowercase in (True, False)
    }
    # Special tokens are found before `_tokenize`, which knows English alone then.
    for lowercase, tokenizer in by_case.items():
        whole = [tokenizer.convert_tokens_to_ids(tokenizer.tokenize(t)) for t in TEXTS]
        found["with special tokens" + ("" if lowercase else " cased")] = whole
    (output / "ids.json").write_text(json.dumps({"texts": TEXTS, "ids": found}))
    checksums = {
        f"{language}{'' if lowercase else ' cased'}": np.array(
            [_checksum(of(line, language, lowercase)) for line in lines], np.uint16
        )
        for language, lowercase in OF_LINES
    }
    np.savez_compressed(output / "checksums.npz", **checksums)


def _checksum(ids: list[int]) -> int:
    return zlib.crc32(np.array(ids, "<i4").tobytes()) & 0xFFFF


if __name__ == "__main__":
    app.run(main)
