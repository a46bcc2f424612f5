"""Vocabularies of AWD-LSTMs: fast.ai's pickled lists of words, and this package's vocab.txt."""

import json
import mmap
from pathlib import Path
from typing import Any

from bert_zoo.error_text import shown
from bert_zoo.text.files import VocabularyFiles
from bert_zoo.text.format import TokenizerParts
from bert_zoo.text.word_level_files import read_word_level
from bert_zoo.weights.files import WeightsError, refuse_lfs_pointer
from bert_zoo.weights.restricted_pickle import read_pickle

# Replaces fast.ai's token for a line end, the character itself, which a file of lines cannot hold.
NEWLINE = "xxnl"
_ESCAPES = str.maketrans({blank: f"\\x{ord(blank):02x}" for blank in " \t\n\r\v\f"})
# Words of the largest vocabulary that is read; fast.ai's have 60,000.
MOST_WORDS = 1_000_000
CLASS = "FastAITokenizer"
_ADVICE = (
    "bert_zoo reads only a list of words from it. If you trust the file, load it with Python and write "
    "the words to vocab.txt, one per line."
)


def fastai_tokenizer(**arguments: Any):
    from bert_zoo.families.awd_lstm.tokenizer import FastAITokenizer

    return FastAITokenizer(**arguments)


def read_vocabulary(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    """Reads vocab.txt, as this package writes it, or the pickle beside fast.ai's weights."""
    if files.has("vocab.txt"):
        if files.json("tokenizer_config.json").get("tokenizer_class") != CLASS:
            return read_word_level(files, overrides)
        backwards = files.json("tokenizer_config.json").take("backwards", bool, False)
        tokens, path = files.lines("vocab.txt"), files.path("vocab.txt")
    else:
        found = sorted(files.directory.glob("*.pkl"))
        if len(found) != 1:
            raise FileNotFoundError(
                f"{files.directory} should hold vocab.txt or one .pkl with the words; it holds {files.names()}."
            )
        (path,) = found
        tokens = read_words(path)
        # fast.ai uses the same words for both directions.
        backwards = any("bwd" in name for name in files.names() if name.endswith(".pth"))
        # Spelled as the tokenizer writes them, so that they can be saved without making one.
        files.contents["vocab.txt"] = "".join(f"{word}\n" for word in tokens).encode()
        config = {"tokenizer_class": CLASS, "backwards": backwards}
        files.contents["tokenizer_config.json"] = json.dumps(config).encode()
    arguments = {"vocabulary": tokens, "backwards": backwards, **overrides}
    return TokenizerParts(fastai_tokenizer, arguments, path)


def read_words(path: Path) -> list[str]:
    """Reads the words of a pickled list, in the order of their ids, without running the pickle.

    Words of white space are spelled with escapes, and a single line end as `NEWLINE`.

    Raises:
        WeightsError: the file is damaged, or holds anything else.
    """
    refuse_lfs_pointer(path)
    if path.stat().st_size == 0:
        raise WeightsError(f"{path} is empty. Download it again.")
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as stream:
        words = read_pickle(stream, str(path), {}, advice=_ADVICE)
    if type(words) is not list or not words or {*map(type, words)} != {str}:
        raise WeightsError(f"{path} holds {shown(words, 60)} instead of a list of words. {_ADVICE}")
    if len(words) > MOST_WORDS:
        raise WeightsError(
            f"{path} lists {len(words):,} words; at most {MOST_WORDS:,} are read. Check that it is a vocabulary."
        )
    # A padding word, which makes their number a multiple of 8, occurs several times.
    tokens = [NEWLINE if word == "\n" else word.translate(_ESCAPES) for word in words]
    seen: set[str] = set()
    for index in range(len(tokens)):
        while tokens[index] in seen:
            tokens[index] += f"_{index}"
        seen.add(tokens[index])
    return tokens
