"""Writes bert_zoo/families/xlm/moses_tables.json: what the Moses tokenizer knows of characters and abbreviations.

    python -m venv moses-env
    moses-env/bin/pip install sacremoses==0.2.0
    moses-env/bin/python tools/references/moses_tables.py        # Python 3.11

Classes of characters are Perl's as sacremoses has them (`alnum`, `alpha`, `number`, `lower`, `hangul`), and
Python's own (`digit`, `other`, `nonspacing`); prefixes are those of the Moses decoder's files;
"#" follows those that keep their full stop before numbers alone.
"""

import json
import pathlib
import sys
import unicodedata

from sacremoses._data_perluniprops import PERLUNIPROPS
from sacremoses.corpus import NonbreakingPrefixes
from sacremoses.tokenize import MosesTokenizer
from unicode_file import ranges_of

OUTPUT = pathlib.Path(__file__).parents[2] / "bert_zoo/families/xlm/moses_tables.json"
# Segmented by other programs.
OTHERS = {"zh", "yue", "ja", "th"}
NUMERIC = " #NUMERIC_ONLY#"


def ranges(characters) -> str:
    return ranges_of({ord(character) for character in characters})


def of_category(*beginnings: str):
    characters = (chr(code) for code in range(sys.maxunicode + 1))
    return (c for c in characters if unicodedata.category(c).startswith(beginnings))


def main() -> None:
    if sys.version_info[:2] != (3, 11):
        raise SystemExit("Run this with Python 3.11, whose Unicode tables the others are of.")
    words = NonbreakingPrefixes()
    prefixes = {}
    for language in sorted({*words.available_langs.values()} - OTHERS):
        entries = [*words.words(language)]
        numeric = sorted({e.removesuffix(NUMERIC) for e in entries if e.endswith(NUMERIC)})
        always = sorted({e for e in entries if " " not in e} - {*numeric})
        prefixes[language] = " ".join([*always, *(f"{prefix}#" for prefix in numeric)])
    tables = {
        "alnum": ranges(MosesTokenizer.IsAlnum),
        "alpha": ranges(MosesTokenizer.IsAlpha),
        "number": ranges(MosesTokenizer.IsN),
        "lower": ranges(MosesTokenizer.IsLower),
        "hangul": ranges(PERLUNIPROPS["Hangul"]),
        "digit": ranges(of_category("Nd")),
        "other": ranges(c for c in of_category("C") if not 0xD800 <= ord(c) < 0xE000),
        "nonspacing": ranges(of_category("Mn")),
    }
    content = {"tables": tables, "prefixes": prefixes}
    OUTPUT.write_text(json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
