"""Reads T5's vocabularies, without TensorFlow."""

from dataclasses import replace
from typing import Any

from bert_zoo.text.added_tokens import AddedToken, distinct_tokens
from bert_zoo.text.files import VocabularyFiles, read_named_tokens
from bert_zoo.text.format import TokenizerParts
from bert_zoo.text.layout import Layout
from bert_zoo.text.sentencepiece_files import TOKENIZER_FILE, read_sentencepiece
from bert_zoo.text.sentencepiece_model import Scheme

LAYOUT = Layout(single="A sep", pair="A sep B sep", segments=False)
SPECIAL_TOKENS = {
    "unknown_token": "<unk>",
    "padding_token": "<pad>",
    **dict.fromkeys(("sep_token", "eos_token"), "</s>"),
}
SCHEME = Scheme(
    name="t5",
    model_file="spiece.model",
    tokenizer_class="T5Tokenizer",
    special_tokens=SPECIAL_TOKENS,
    begins_word="▁.*",
)
SENTINELS, MOST_SENTINELS = 100, 10_000  # the number if no file states it, and the largest allowed
SENTINEL = "<extra_id_{}>"


def read_vocabulary(files: VocabularyFiles, overrides: dict[str, Any]) -> TokenizerParts:
    """Reads a SentencePiece model and appends sentinels: `<extra_id_0>` is the last token.

    mT5's model includes sentinels.

    Args:
        files: the directory's files.
        overrides: keyword arguments of SentencePieceTokenizer that overrule the files.

    Raises:
        FileNotFoundError, ConfigError: as `read_sentencepiece`.
    """
    named = [token for token in read_named_tokens(files).tokens if token.startswith("<extra_id_")]
    config = files.json("tokenizer_config.json")
    number = len(named) or config.take("extra_ids", int, SENTINELS, within=(0, MOST_SENTINELS))
    sentinels = () if _has_sentinels(files) else [*map(SENTINEL.format, reversed(range(number)))]
    scheme = replace(SCHEME, last_tokens=tuple(sentinels))
    parts = read_sentencepiece(files, {"scheme": scheme, **overrides})
    added = [AddedToken(sentinel, special=True) for sentinel in sentinels]
    added = distinct_tokens([*added, *parts.arguments["added_tokens"]]).values()
    added = [token.as_config() for token in added]
    return parts._replace(arguments={**parts.arguments, "added_tokens": added})


def _has_sentinels(files: VocabularyFiles) -> bool:
    """Whether a directory's model includes sentinels."""
    models = [path.name for path in files.directory.glob("*.model")] or [TOKENIZER_FILE]
    sentinel = f"▁{SENTINEL.format(0)}".encode()
    return any(files.has(name) and sentinel in files.content(name) for name in models)
