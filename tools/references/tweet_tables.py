"""Writes what tweets are normalised by: "tweets" in bert_zoo/text/unicode_tables.json, and families/bertweet/emoji_tables.json.

    python -m venv tweet-env
    tweet-env/bin/pip install emoji==0.6.0 regex==2026.11.15
    tweet-env/bin/python tools/references/tweet_tables.py

The models were trained with the names of emoji 0.6.0; later versions have others.
"""

import json
import sys

import emoji
import regex
from unicode_file import FILE, ranges_of, write_section

VERSIONS = {"emoji": "0.6.0", "regex": "2026.11.15"}


def main() -> None:
    if (found := {"emoji": emoji.__version__, "regex": regex.__version__}) != VERSIONS:
        raise SystemExit(f"The tables are those of {VERSIONS}, and installed are {found}.")
    codes = [code for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    classes = {"word": regex.compile(r"\w"), "number": regex.compile(r"\d")}
    sets = {
        name: ranges_of(code for code in codes if pattern.match(chr(code)))
        for name, pattern in classes.items()
    }
    write_section("tweets", f"regex {regex.__version__}", sets)
    names = {character: emoji.demojize(character) for character in map(chr, codes)}
    changed = {character: name for character, name in names.items() if name != character}
    table = {
        "source": f"emoji {emoji.__version__}",
        "characters": "".join(changed),
        "names": " ".join(name.strip(":") for name in changed.values()),
    }
    text = json.dumps(table, indent=0, ensure_ascii=False)
    names = FILE.parents[1] / "families/bertweet/emoji_tables.json"
    names.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
