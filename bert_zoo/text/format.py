"""How a family reads text, as its page says it; without TensorFlow."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bert_zoo.config import Config, ConfigError
from bert_zoo.json_files import JsonObject
from bert_zoo.text.added_tokens import extended
from bert_zoo.text.files import VocabularyFiles
from bert_zoo.text.layout import BERT, Layout

log = logging.getLogger("bert_zoo")

if TYPE_CHECKING:
    from bert_zoo.text.preprocessor import TextPreprocessor
    from bert_zoo.text.tokenizer import Tokenizer


class TokenizerParts(NamedTuple):
    """What a tokenizer is made of."""

    maker: Callable[..., Tokenizer]  # makes it from the arguments, and imports TensorFlow for that
    arguments: dict[str, Any]
    source: Path  # file or directory that errors name

    def make(self) -> Tokenizer:
        try:
            return self.maker(**self.arguments)
        except ValueError as error:
            raise ConfigError(f"{self.source}: {error}") from error


def rows_of_texts(tokenizer: Tokenizer, **options: Any) -> TextPreprocessor:
    """A preprocessor of texts and pairs of them: in TensorFlow's graph, or in NumPy where that is missing."""
    from bert_zoo.graph import has_tensorflow

    if has_tensorflow:
        from bert_zoo.text.preprocessor import Preprocessor

        return Preprocessor(tokenizer, **options)
    from bert_zoo.text.numpy_preprocessor import NumpyPreprocessor

    return NumpyPreprocessor(tokenizer, **options)


def rows_of_language_models(tokenizer: Tokenizer, **options: Any) -> TextPreprocessor:
    """A preprocessor for language models that remember what they have read."""
    from bert_zoo.graph import has_tensorflow

    if has_tensorflow:
        from bert_zoo.text.preprocessor import LanguageModelPreprocessor

        return LanguageModelPreprocessor(tokenizer, **options)
    from bert_zoo.text.numpy_preprocessor import NumpyLanguageModelPreprocessor

    return NumpyLanguageModelPreprocessor(tokenizer, **options)


@dataclass(frozen=True)
class TextFormat:
    """How the models of a family read text."""

    # (files, options of the tokenizer that overrule them) -> what the tokenizer is made of
    read: Callable[[VocabularyFiles, dict[str, Any]], TokenizerParts]
    # Such options, which the family's files do not say or say wrongly.
    options: Mapping[str, Any] = field(default_factory=dict)
    layout: Layout = BERT  # where special tokens and padding stand around texts
    segmented: Layout | None = None  # of models that tell segments apart, where most do not
    # (tokenizer, options) -> what makes rows
    preprocessor: Callable[..., TextPreprocessor] = rows_of_texts
    # transformers' class for a directory with tokenizer.json. The default does what that file says and
    # nothing else; classes of transformers 5 make a tokenizer of their own from its vocabulary, so that
    # only those that compute the same are named.
    transformers_class: str = "PreTrainedTokenizerFast"

    def of_model(self, config: Config) -> TextFormat:
        """How a model of the family reads text."""
        if self.segmented is None or config.num_segments < 2:
            return self
        return replace(self, layout=self.segmented)

    def parts(self, files: VocabularyFiles, options: Mapping[str, Any]) -> TokenizerParts:
        """What a directory's tokenizer is made of; `options` overrule the files."""
        return self.read(files, {**self.options, **options})


class WithPreprocessor(str):
    """A string of a layer's configuration that carries the layer's preprocessor.

    `keras.models.clone_model` makes layers from their configurations, which are JSON and so hold no
    vocabulary. Within a process this string does; a file holds the string alone.
    """

    preprocessor: TextPreprocessor | DeferredPreprocessor | None

    def __new__(cls, value: str, preprocessor: TextPreprocessor | DeferredPreprocessor | None):
        made = super().__new__(cls, value)
        made.preprocessor = preprocessor
        return made

    def __deepcopy__(self, memo):
        # Keras copies configurations.
        return self

    def __reduce__(self):
        return str, (str(self),)


class DeferredPreprocessor:
    """A preprocessor whose files have been read, and which is made when it is asked for.

    So models on ids need no tokenizer, and the directory may be gone when the first text comes.

    Args:
        path: a directory with a vocabulary.
        text_format: of the model's family.
        tokenizer_options: keyword arguments of the tokenizer, which overrule the files.
        **options: keyword arguments of the family's preprocessor, ready for JSON.
    """

    def __init__(
        self,
        path: str | Path,
        text_format: TextFormat,
        *,
        tokenizer_options: Mapping[str, Any] | None = None,
        **options: Any,
    ):
        files = VocabularyFiles(path)
        self._parts = text_format.parts(files, tokenizer_options or {})
        _say_other_pairs(files.json("tokenizer.json"), text_format.layout)
        self._contents = files.contents
        self._format = text_format
        self._lock = threading.Lock()
        self._options = options
        self._tokenizer_options = dict(tokenizer_options or {})

    @property
    def vocab_size(self) -> int | None:
        """How many tokens there are; None where only the made tokenizer tells."""
        arguments = self._parts.arguments
        if "vocabulary" not in arguments:
            return None
        return len(extended(arguments["vocabulary"], arguments.get("added_tokens", ())))

    def make(self) -> TextPreprocessor:
        """The preprocessor, made once for all threads.

        Raises:
            ImportError: tensorflow_text is missing where TensorFlow is.
            ConfigError: the vocabulary does not fit its tokenizer.
        """
        with self._lock:
            return self._made

    @functools.cached_property
    def _made(self) -> TextPreprocessor:
        options = {"layout": self._format.layout, **self._options}
        return self._format.preprocessor(self._parts.make(), **options)

    def get_config(self) -> dict[str, Any]:
        """The keyword arguments, ready for JSON."""
        return {**self._options, "tokenizer_options": self._tokenizer_options}

    @property
    def lowercase(self) -> bool | None:
        """Whether texts are lower-cased; None where that is not said."""
        return self._parts.arguments.get("lowercase")

    def save_vocabulary(self, directory: str | Path) -> None:
        """Writes the files as they were read, for a process that cannot make the tokenizer.

        Raises:
            ImportError: they were too large to be kept.
        """
        if not self._contents:
            raise ImportError(
                f"The vocabulary that was read from {self._parts.source} can only be written with "
                "tensorflow_text, which is not installed beside TensorFlow here. Install it, or set "
                "model.preprocessor = None to save the model without a vocabulary."
            )
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in self._contents.items():
            (directory / name).write_bytes(content)


def _say_other_pairs(content: JsonObject, layout: Layout) -> None:
    """Says where a tokenizer.json composes pairs of texts otherwise than the family."""
    step = content.section("post_processor")
    steps = step.items_of("processors", dict) if "processors" in step else [step]
    # transformers 5.24 gives DeBERTa's pairs two separators (tokenization_deberta.py).
    templates = [step.items_of("pair", dict) for step in steps if step.get("pair")]
    for template in templates if layout.pair else ():
        theirs = [part.section("Sequence").take("id", str) for part in template]
        ours = [part.name if part.is_text else None for part in layout.parts(2)]
        if theirs != ours:
            log.warning(
                "%s puts %d special tokens around the two texts of a pair; models of this family were trained "
                "with %d, which is what bert_zoo puts there. Where this one was fine-tuned on pairs as in the "
                "file, give model.preprocessor.with_options(layout=...) to the model.",
                content.where,
                theirs.count(None),
                ours.count(None),
            )
