"""Reads the pickled vocabularies of Transformer-XL's programs, without running the pickle.

- The TensorFlow program's `cache.pkl`: its corpus, with a `Vocab` (tf/data_utils.py,
  tf/vocabulary.py of kimiyoung/transformer-xl). The released ones were written by Python 2.
- The PyTorch program's `cache.pt`: the same, by `torch.save`.
- Hugging Face's `vocab.pkl` and `vocab.bin` (`torch.save`): the attributes of such a `Vocab`, or of
  a `TransfoXLTokenizer` (transformers before 4.36, tokenization_transfo_xl.py).
"""

import logging
import mmap
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from bert_zoo.error_text import shown
from bert_zoo.text.files import VocabularyFiles
from bert_zoo.text.format import TokenizerParts
from bert_zoo.text.vocabulary_files import (
    EOS_TOKENS,
    UNKNOWN_TOKENS,
    WORD_LEVEL,
    first_known,
    read_word_level,
    with_assumed_options,
)
from bert_zoo.weights.files import WeightsError, refuse_lfs_pointer
from bert_zoo.weights.restricted_pickle import (
    UNREAD_ARRAYS,
    Record,
    Unread,
    make_dict,
    read_pickle,
    records,
)

_LOGGER = logging.getLogger(__name__)

_ALLOWED = {
    # The programs' own classes; data_utils.py also writes the file.
    **records("vocabulary.Vocab", "utils.vocabulary.Vocab"),
    **records("data_utils.Corpus", "__main__.Corpus"),
    "collections.OrderedDict": make_dict,
    # The corpus itself: arrays of ids.
    **UNREAD_ARRAYS,
    **dict.fromkeys(
        (
            *("collections.Counter", "__builtin__.bytes"),
            # Other attributes of transformers' tokenizer (4.35).
            *("re._compile", "__builtin__.set", "builtins.set"),
            "sacremoses.normalize.MosesPunctNormalizer",
            *("sacremoses.tokenize.MosesTokenizer", "sacremoses.tokenize.MosesDetokenizer"),
            *("transformers.tokenization_utils.Trie", "tokenizers.AddedToken"),
        ),
        Unread,
    ),
}

_ADVICE = (
    "bert_zoo reads only the vocabularies of Transformer-XL from pickles. If you trust the file, "
    "load it with the program that wrote it and write the tokens of its idx2sym to vocab.txt, one "
    "on each line."
)

# Longer than any token. The encoded WikiText-103 in the same file is a string of 0.8 GB.
_LONGEST_STRING = 1 << 16

# Hugging Face's older and newer file, the TensorFlow program's and the PyTorch program's.
_FILES = ("vocab.pkl", "vocab.bin", "cache.pkl", "data/cache.pkl", "cache.pt")


def read_vocabulary(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    """Reads vocab.txt, as this package writes it, or one of the originals' pickles."""
    if files.has("vocab.txt"):
        return read_word_level(files, overrides)
    if (name := next((name for name in _FILES if files.has(name)), None)) is None:
        raise FileNotFoundError(
            f"{files.directory} has none of vocab.txt, {', '.join(_FILES)}; it holds "
            f"{files.names()}."
        )
    path = files.path(name)
    found = read_pickled_vocabulary(path)
    options = {"unknown_token": found.unknown_token, "eos_token": found.eos_token}
    options = with_assumed_options(found.tokens, path, options | overrides)
    # Bytes are written as numbers, which have no case.
    lowercase = found.lowercase and options["unit"] != "byte"
    arguments = {"vocabulary": found.tokens, "lowercase": lowercase, **options}
    return TokenizerParts(WORD_LEVEL, arguments, path)


class PickledVocabulary(NamedTuple):
    """A word or character vocabulary of Transformer-XL. Special tokens that it lacks are None."""

    tokens: list[str]  # in the order of their ids
    lowercase: bool  # whether the program lower-cased the text
    eos_token: str | None  # the token at the end of every line
    unknown_token: str | None  # the token for words outside the vocabulary


def read_pickled_vocabulary(path: str | os.PathLike) -> PickledVocabulary:
    """Reads the vocabulary in a `cache.pkl`, `cache.pt`, `vocab.pkl` or `vocab.bin`. transformers read the released
    file, whose Python 2 strings are UTF-8, as Latin-1. So about 10,000 tokens of its transfo-xl-wt103 differ from
    the words that the model was trained on (huggingface/transformers issue 271). If all tokens of a file can be
    decoded that way, they are corrected, and this is logged.
    """
    path = Path(path)
    refuse_lfs_pointer(path)
    if path.suffix not in _READERS:
        raise WeightsError(
            f"{path} has no ending that bert_zoo knows of pickled vocabularies; known endings are "
            f"{', '.join(_READERS)}."
        )
    table = _READERS[path.suffix](path)
    if type(table) is Record and "vocab" in table:
        table = table["vocab"]  # of the corpus
    if not isinstance(table, dict) or "idx2sym" not in table:
        raise WeightsError(f"{path} holds no vocabulary: nothing in it is called idx2sym.")
    tokens = _tokens(table, path)
    lowercase, unknown_id = table.get("lower_case"), table.get("unk_idx")
    if type(lowercase) is not bool:
        raise WeightsError(f"{path} does not say whether its words are in lower case.")
    if unknown_id is not None and unknown_id not in range(len(tokens)):
        raise WeightsError(f"{path} has no token of the id {shown(unknown_id)}, its unk_idx.")
    unknown = first_known(UNKNOWN_TOKENS, tokens) if unknown_id is None else tokens[unknown_id]
    return PickledVocabulary(tokens, lowercase, first_known(EOS_TOKENS, tokens), unknown)


def _read_pickle_file(path: Path) -> Any:
    if path.stat().st_size == 0:
        raise WeightsError(f"{path} is empty. Download it again.")
    # A mapped file never returns more bytes than it has, whatever length the pickle asks for.
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as stream:
        return read_pickle(stream, str(path), _ALLOWED, advice=_ADVICE, longest=_LONGEST_STRING)


def _read_torch_file(path: Path) -> Any:
    from bert_zoo.weights.torch_bin import read_object

    return read_object(path, _ALLOWED, _ADVICE)


_READERS: dict[str, Callable[[Path], Any]] = {
    ".pkl": _read_pickle_file,
    ".bin": _read_torch_file,
    ".pt": _read_torch_file,
}


def _tokens(table: dict[str | int, Any], path: Path) -> list[str]:
    tokens, ids = table["idx2sym"], table.get("sym2idx")
    if type(tokens) is not list or not tokens or {*map(type, tokens)} != {str}:
        raise WeightsError(f"idx2sym of {path} is not a list of strings.")
    expected = {token: index for index, token in enumerate(tokens)}
    if ids != expected or len(expected) != len(tokens):
        raise WeightsError(
            f"idx2sym and sym2idx of {path} do not agree: not every token has one id. The file is "
            "damaged: download it again."
        )
    if broken := [token for token in tokens if re.search("[\ud800-\udfff]", token)]:
        raise WeightsError(f"Tokens of {path} are not UTF-8: {shown(broken)}.")
    return _undo_latin_1(tokens, path)


def _undo_latin_1(tokens: list[str], path: Path) -> list[str]:
    """Decodes tokens as UTF-8 if all of them are UTF-8 that was read as Latin-1."""
    try:
        decoded = [token.encode("latin-1").decode("utf-8") for token in tokens]
    except UnicodeError:
        return tokens
    changed = sum(new != old for new, old in zip(decoded, tokens, strict=True))
    if changed:
        _LOGGER.info(
            "%s: %s of %s tokens were UTF-8 read as Latin-1 and have been corrected.",
            *(path, f"{changed:,}", f"{len(tokens):,}"),
        )
    return decoded
