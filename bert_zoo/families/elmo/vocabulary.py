"""How ELMo's models read texts, as the family's page says it; without TensorFlow."""

from typing import Any

from bert_zoo.text.files import VocabularyFiles
from bert_zoo.text.format import TokenizerParts


def _tokenizer(**arguments):
    from bert_zoo.families.elmo.tokenizer import CharacterTokenizer

    return CharacterTokenizer(**arguments)


def read_characters(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    """A tokenizer of words into characters, which needs files for a size of words other than 50 alone."""
    size = files.json("tokenizer_config.json").take("max_characters", int)
    for path in files.directory.glob("*options.json"):
        size = files.json(path.name).section("char_cnn").take("max_characters_per_token", int)
    options = {} if size is None else {"max_characters": size}
    return TokenizerParts(_tokenizer, {**options, **overrides}, files.directory)


def preprocessor(tokenizer, **options):
    """What makes rows of words: in TensorFlow's graph, or in NumPy where that is missing."""
    from bert_zoo.families.elmo import tokenizer as kinds
    from bert_zoo.graph import has_tensorflow

    kind = kinds.WordPreprocessor if has_tensorflow else kinds.NumpyWordPreprocessor
    return kind(tokenizer, **options)
