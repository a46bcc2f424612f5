"""A language model's vocabulary from text files.

    python tools/build_vocabulary.py --output vocabularies/wt103 wikitext-103/train.txt
    python tools/build_vocabulary.py --output vocabularies/enwik8 --unit byte enwik8
    python tools/build_vocabulary.py --output vocabularies/text8 --unit character --space_token _ text8

Writes a directory that bert_zoo.text.tokenizer_from_dir(path, "transformer_xl") reads: vocab.txt, a
symbol a line by falling frequency, and tokenizer_config.json. docs/text.md describes both.
"""

from collections import Counter
from itertools import pairwise

import program
from absl import flags

_OUTPUT = flags.DEFINE_string("output", None, "The directory to write.", required=True)
_UNIT = flags.DEFINE_enum("unit", "word", ["word", "character", "byte"], "What a symbol is.")
_LOWERCASE = flags.DEFINE_bool("lowercase", False, "Lower-case texts.")
_EOS_TOKEN = flags.DEFINE_string(
    "eos_token", None, "The end of a line; empty for none. By default '<eos>' for words, else none."
)
_UNKNOWN_TOKEN = flags.DEFINE_string(
    "unknown_token",
    None,
    "As eos_token, for other symbols. By default '<unk>' for words, else none.",
)
_SPACE_TOKEN = flags.DEFINE_string("space_token", None, "For characters, the symbol of a space.")
_EOS_AT = flags.DEFINE_enum(
    "eos_at",
    None,
    ["never", "newlines", "line_ends", "line_starts_and_ends"],
    "Where texts have the end token. By default at newlines, for words with an end token.",
)
_MAX_SIZE = flags.DEFINE_integer(
    "max_size", None, "The most symbols, beside special ones that texts lack.", lower_bound=1
)
_MIN_COUNT = flags.DEFINE_integer(
    "min_count", 0, "Leave out symbols that are rarer.", lower_bound=0
)


def main(argv: list[str]) -> None:
    paths = argv[1:]
    if not paths:
        raise ValueError("Name the text files to count, for example train.txt.")
    from bert_zoo.data.language_modelling import count_symbols, select_symbols, suggested_cutoffs
    from bert_zoo.text import SymbolTokenizer

    words = _UNIT.value == "word"
    eos_token = _token(_EOS_TOKEN.value, "<eos>" if words else None)
    unknown_token = _token(_UNKNOWN_TOKEN.value, "<unk>" if words else None)
    reading = {
        "unit": _UNIT.value,
        "lowercase": _LOWERCASE.value,
        "space_token": _SPACE_TOKEN.value,
    }
    counts = count_symbols(paths, **reading)
    vocabulary = select_symbols(
        counts,
        max_size=_MAX_SIZE.value,
        min_count=_MIN_COUNT.value,
        special=() if eos_token is None else (eos_token,),
        unknown_token=unknown_token,
    )
    SymbolTokenizer(
        vocabulary,
        unknown_token=unknown_token,
        eos_token=eos_token,
        eos_at=_EOS_AT.value or ("newlines" if words and eos_token else "never"),
        **reading,
    ).save(_OUTPUT.value)
    _report(counts, vocabulary, suggested_cutoffs(len(vocabulary)))


def _token(given: str | None, default: str | None) -> str | None:
    """An empty flag says that there is no such token."""
    return default if given is None else given or None


def _report(counts: Counter[str], vocabulary: list[str], cutoffs: list[int]) -> None:
    total = counts.total()
    held = sum(counts[symbol] for symbol in vocabulary)
    print(f"Wrote {len(vocabulary):,} symbols to {_OUTPUT.value}.")
    print(
        f"The texts have {total:,} symbols, {len(counts):,} of them distinct; the vocabulary covers "
        f"{held / total:.4%}."
    )
    print("The most frequent ones: ", end="")
    print(", ".join(f"{symbol!r} {count:,}" for symbol, count in counts.most_common(10)))
    print(f"Cutoffs for adaptive softmax, by the shares of WikiText-103's vocabulary: {cutoffs}.")
    if not cutoffs:
        print("A vocabulary as small as this one needs no adaptive softmax.")
        return
    edges = [0, *cutoffs, len(vocabulary)]
    for first, end in pairwise(edges):
        share = sum(counts[symbol] for symbol in vocabulary[first:end]) / total
        print(f"  ids {first:,} to {end - 1:,} are {share:.2%} of the texts")


if __name__ == "__main__":
    program.run(main)
