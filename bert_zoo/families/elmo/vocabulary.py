"""Makes ELMo's tokenizers from files, without TensorFlow."""

from typing import Any

from bert_zoo.config import ConfigError
from bert_zoo.error_text import shown
from bert_zoo.families.elmo.config import MOST_CHARACTERS
from bert_zoo.text.files import VocabularyFiles
from bert_zoo.text.format import TokenizerParts, rows_of_language_models
from bert_zoo.text.word_level_files import read_word_level

# The first words of a vocabulary for models that read word ids.
SPECIAL_WORDS = ("<S>", "</S>", "<UNK>")


def _tokenizer(**arguments):
    from bert_zoo.families.elmo.tokenizer import CharacterTokenizer

    return CharacterTokenizer(**arguments)


def read_words(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    """Makes a tokenizer into characters, which needs files only for a word size other than 50.

    For models that read word ids it has their vocabulary: vocab.txt, or the only file with "vocab" in its name.
    """
    config = files.json("tokenizer_config.json")
    size = config.take("max_characters", int, within=(1, MOST_CHARACTERS))
    # The directory may also have the softmax's vocabulary, which spells it differently.
    by_number = config.get("unknown_token") == SPECIAL_WORDS[-1]
    for path in files.directory.glob("*options.json"):
        by_number = "char_cnn" not in files.json(path.name)
        section = files.json(path.name).section("char_cnn")
        size = section.take("max_characters_per_token", int, within=(1, MOST_CHARACTERS))
    if by_number:
        return _read_numbers(files, overrides)
    options = {} if size is None else {"max_characters": size}
    return TokenizerParts(_tokenizer, {**options, **overrides}, files.directory)


def _read_numbers(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    if not files.has("vocab.txt"):
        found = [*files.directory.glob("*vocab*.txt")]
        if len(found) != 1:
            raise FileNotFoundError(
                f"{files.directory} should hold vocab.txt, the words in the order of their ids, one per line; it "
                f"holds {files.names()}."
            )
        files.contents["vocab.txt"] = found[0].read_bytes()
    begin = files.lines("vocab.txt")[: len(SPECIAL_WORDS)]
    if tuple(begin) != SPECIAL_WORDS:
        raise ConfigError(
            f"The vocabulary in {files.directory} begins with {shown(begin)}; it must begin with {SPECIAL_WORDS}."
        )
    options = {"unit": "word", "unknown_token": SPECIAL_WORDS[-1], "eos_token": None}
    return read_word_level(files, {**options, **overrides})


def preprocessor(tokenizer, **options):
    """The preprocessor, in TensorFlow's graph, or in NumPy if TensorFlow is not installed."""
    from bert_zoo.families.elmo import tokenizer as kinds
    from bert_zoo.graph import has_tensorflow

    if not isinstance(tokenizer, kinds.CharacterTokenizer):
        return rows_of_language_models(tokenizer, **options)
    kind = kinds.WordPreprocessor if has_tensorflow else kinds.NumpyWordPreprocessor
    return kind(tokenizer, **options)
