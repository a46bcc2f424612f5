"""Builds a vocabulary from text files.

bert_zoo build_vocabulary --output vocabularies/mine --kind wordpiece --vocab_size 30522 "my/*.txt"
bert_zoo build_vocabulary --output vocabularies/wt103 wikitext-103/train.txt
bert_zoo build_vocabulary --output vocabularies/enwik8 --unit byte enwik8
bert_zoo build_vocabulary --output vocabularies/text8 --unit character --space_token _ text8

The directory is for bert_zoo.text.tokenizer_from_dir. The family is "bert" for --kind wordpiece, "roberta"
for byte_bpe and "albert" for sentencepiece; these read text in any form that docs/pretraining.md names.
Without --kind, the family is "transformer_xl", with vocab.txt (one token per line, the most frequent
first) and tokenizer_config.json; see docs/text.md.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bert_zoo.cli.program import Program
from bert_zoo.data.files import require_file

if TYPE_CHECKING:
    from bert_zoo.text import WordLevelTokenizer

PROGRAM = Program(__doc__, required=("output",), takes_arguments=True)
_OUTPUT = PROGRAM.string("output", None, "The directory to write.")
_KIND = PROGRAM.enum(
    "kind",
    "word_level",
    [
        *("word_level", "wordpiece", "byte_bpe", "byte_bpe_bracketed"),
        *("sentencepiece", "sentencepiece_cased", "sentencepiece_plain", "sentencepiece_sentinels"),
    ],
    "word_level counts whole words, characters or bytes, for language models. The others are subword "
    "vocabularies, trained with tokenizers or sentencepiece.",
)
_VOCAB_SIZE = PROGRAM.integer(
    "vocab_size", 30_000, "Number of tokens, for subwords.", lower_bound=300
)
_UNIT = PROGRAM.enum(
    "unit", "word", ["word", "character", "byte"], "Kind of token, for word_level."
)
_LOWERCASE = PROGRAM.bool("lowercase", False, "Lower-case texts.")
_EOS_TOKEN = PROGRAM.string(
    "eos_token",
    None,
    "End-of-line token; empty for none. By default '<eos>' for words, else none.",
)
_UNKNOWN_TOKEN = PROGRAM.string(
    "unknown_token",
    None,
    "Unknown token; empty for none. By default '<unk>' for words, else none.",
)
_SPACE_TOKEN = PROGRAM.string("space_token", None, "Token for a space, for characters.")
_EOS_AT = PROGRAM.enum(
    "eos_at",
    None,
    ["never", "newlines", "line_ends", "line_starts_and_ends"],
    "Where to put the end token. By default at newlines, for words with an end token.",
)
_MAX_SIZE = PROGRAM.integer(
    "max_size",
    None,
    "Maximum number of tokens, not counting special ones missing from the text.",
    lower_bound=1,
)
_MIN_COUNT = PROGRAM.integer(
    "min_count", 0, "Leave out tokens that occur less often.", lower_bound=0
)


def main(arguments: list[str]) -> None:
    if not arguments:
        raise ValueError("Name the text files to read, for example train.txt.")
    if _KIND.value != "word_level":
        _train_pieces(arguments)
        return
    for path in arguments:
        require_file(Path(path), advice="Check its name and folder.")
    # An empty flag means no such token.
    given = {"eos_token": _EOS_TOKEN.value, "unknown_token": _UNKNOWN_TOKEN.value}
    special = {name: token or None for name, token in given.items() if token is not None}
    tokenizer, counts = counted_tokenizer(
        arguments,
        unit=_UNIT.value,
        lowercase=_LOWERCASE.value,
        space_token=_SPACE_TOKEN.value,
        eos_at=_EOS_AT.value,
        max_size=_MAX_SIZE.value,
        min_count=_MIN_COUNT.value,
        **special,
    )
    tokenizer.save(_OUTPUT.value)
    _report(counts, tokenizer.vocabulary)


def _train_pieces(sources: list[str]) -> None:
    from bert_zoo.pretraining.corpus import Corpus

    corpus = Corpus(sources)
    # Imports TensorFlow, so only once the files are found.
    from bert_zoo.pretraining.vocabularies import train_vocabulary

    tokens = train_vocabulary(
        (sentence for document in corpus for sentence in document),
        _KIND.value,
        _OUTPUT.value,
        vocab_size=_VOCAB_SIZE.value,
        lowercase=_LOWERCASE.value,
    )
    print(f"Read {corpus.counts}.")
    print(f"Wrote {len(tokens):,} tokens to {_OUTPUT.value}.")


def counted_tokenizer(
    paths: Sequence[str],
    *,
    unit: str,
    eos_at: str | None = None,
    max_size: int | None = None,
    min_count: int = 0,
    lowercase: bool = False,
    space_token: str | None = None,
    **special: str | None,
) -> tuple["WordLevelTokenizer", Counter[str]]:
    """A tokenizer of the tokens in text files, and their counts.

    The options are those of `WordLevelTokenizer` and `select_tokens`. By default `eos_token` and
    `unknown_token` are "<eos>" and "<unk>" for words, and None for characters and bytes.
    """
    from bert_zoo.pretraining.vocabularies import count_tokens, select_tokens
    from bert_zoo.text import WordLevelTokenizer

    words = unit == "word"
    usual = {"eos_token": "<eos>", "unknown_token": "<unk>"}
    special = {name: token if words else None for name, token in usual.items()} | special
    eos_token, unknown_token = special["eos_token"], special["unknown_token"]
    reading = {"unit": unit, "lowercase": lowercase, "space_token": space_token}
    counts = count_tokens(paths, **reading)
    vocabulary = select_tokens(
        counts,
        max_size=max_size,
        min_count=min_count,
        special=() if eos_token is None else (eos_token,),
        unknown_token=unknown_token,
    )
    eos_at = eos_at or ("newlines" if words and eos_token else "never")
    return WordLevelTokenizer(vocabulary, eos_at=eos_at, **special, **reading), counts


def _report(counts: Counter[str], vocabulary: Sequence[str]) -> None:
    total = counts.total()
    held = sum(counts[token] for token in vocabulary)
    print(f"Wrote {len(vocabulary):,} tokens to {_OUTPUT.value}.")
    print(
        f"The texts have {total:,} tokens ({len(counts):,} distinct). The vocabulary covers "
        f"{held / total:.4%} of them."
    )
    print("Most frequent: ", end="")
    print(", ".join(f"{token!r} {count:,}" for token, count in counts.most_common(10)))
