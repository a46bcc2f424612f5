"""How a family reads text, as declared on its page, and how its tokenizer is written; without TensorFlow."""

from __future__ import annotations

import functools
import logging
import pkgutil
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bert_zoo.config import Config, ConfigError
from bert_zoo.graph import has_tensorflow
from bert_zoo.json_files import JsonObject, read_object
from bert_zoo.text.files import VocabularyFiles, extended
from bert_zoo.text.numpy_packing import BERT, TEXTS, Layout, Part
from bert_zoo.weights.files import write_json

if TYPE_CHECKING:
    from bert_zoo.text.preprocessor import TextPreprocessor
    from bert_zoo.text.tokenizer import Tokenizer


log = logging.getLogger("bert_zoo")


class TokenizerParts(NamedTuple):
    """The parts from which a tokenizer is made."""

    maker: str  # "module:class" of the tokenizer, whose import imports TensorFlow
    arguments: dict[str, Any]
    source: Path  # file or directory, for errors
    # The templates for one text and for two by which the files compose rows, if they are to decide.
    templates: tuple[str, str] | None = None

    def layout(self, usual: Layout) -> Layout:
        """The layout of rows, `usual` unless the files decide."""
        if self.templates is None:
            return usual
        try:
            return replace(usual, single=self.templates[0], pair=self.templates[1])
        except ValueError as error:
            raise ConfigError(f"{self.source}: {error}") from error

    def make(self) -> Tokenizer:
        try:
            return pkgutil.resolve_name(self.maker)(**self.arguments)
        except ValueError as error:
            raise ConfigError(f"{self.source}: {error}") from error


def _preprocessor(kind: str, tokenizer: Tokenizer, **options: Any) -> TextPreprocessor:
    """Makes a preprocessor in TensorFlow's graph or, without TensorFlow, in NumPy."""
    from bert_zoo.text import windows

    return getattr(windows, kind if has_tensorflow else f"Numpy{kind}")(tokenizer, **options)


rows_of_texts = functools.partial(_preprocessor, "Preprocessor")  # of texts and pairs
rows_of_language_models = functools.partial(_preprocessor, "LanguageModelPreprocessor")


@dataclass(frozen=True)
class TextFormat:
    """How the models of a family read text.

    Attributes:
        read: (files, options of the tokenizer that take precedence) -> parts of the tokenizer. Raises
            FileNotFoundError if there is no vocabulary or a part of one, ConfigError for a damaged file.
        options: tokenizer options that the family's files lack or have wrong.
        layout: layout of the rows: special tokens, segments and padding.
        segmented: layout of models with segments, in a family where most have none.
        preprocessor: (tokenizer, options) -> preprocessor.
        transformers_class: transformers' class for a directory with tokenizer.json. The default follows that
            file. Other classes of transformers 5 build the tokenizer anew from its vocabulary, so
            name one only if it returns the same ids.
    """

    read: Callable[[VocabularyFiles, dict[str, Any]], TokenizerParts]
    options: Mapping[str, Any] = field(default_factory=dict)
    layout: Layout = BERT
    segmented: Layout | None = None
    preprocessor: Callable[..., TextPreprocessor] = rows_of_texts
    transformers_class: str = "PreTrainedTokenizerFast"

    def of_model(self, config: Config) -> TextFormat:
        """Returns the format for a model of the family."""
        if self.segmented is None or config.num_segments < 2:
            return self
        return replace(self, layout=self.segmented)

    def parts(self, files: VocabularyFiles, options: Mapping[str, Any]) -> TokenizerParts:
        """Reads the parts of a directory's tokenizer; `options` take precedence over the files."""
        return self.read(files, {**self.options, **options})


class WithPreprocessor(str):
    """A string in a layer's configuration that carries the layer's preprocessor. `keras.models.clone_model` makes
    layers from their configurations, which are JSON and have no vocabulary. This string carries it within a process.
    A file only has the string.
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
    """A preprocessor whose files are read at once, and which is made on first use. So models on ids need no tokenizer,
    and the directory may be gone when the first text comes. `tokenizer_options` take precedence over the files;
    other options are the family's preprocessor's, ready for JSON.
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
        self._layout = self._parts.layout(text_format.layout)
        _say_other_pairs(files.json("tokenizer.json"), self._layout)
        self._contents = files.contents
        self._format = text_format
        self._lock = threading.Lock()
        self._options = options
        self._tokenizer_options = dict(tokenizer_options or {})

    @property
    def vocab_size(self) -> int | None:
        """Number of tokens; None if only the tokenizer itself knows it."""
        arguments = self._parts.arguments
        if "vocabulary" not in arguments:
            return None
        return len(extended(arguments["vocabulary"], arguments.get("added_tokens", ())))

    def make(self) -> TextPreprocessor:
        """The preprocessor, made once for all threads; ImportError without tensorflow_text, or ConfigError."""
        with self._lock:
            return self._made

    @functools.cached_property
    def _made(self) -> TextPreprocessor:
        options = {"layout": self._layout, **self._options}
        return self._format.preprocessor(self._parts.make(), **options)

    def get_config(self) -> dict[str, Any]:
        return {**self._options, "tokenizer_options": self._tokenizer_options}

    @property
    def lowercase(self) -> bool | None:
        """Whether texts are lower-cased; None if unknown."""
        return self._parts.arguments.get("lowercase")

    def save_vocabulary(self, directory: str | Path) -> None:
        """Writes the files as read; ImportError if they were too large to be kept."""
        if not self._contents:
            raise ImportError(
                f"Writing the vocabulary that was read from {self._parts.source} needs tensorflow_text, "
                "which is not installed. Install it, or set model.preprocessor = None to save the model "
                "without a vocabulary."
            )
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in self._contents.items():
            (directory / name).write_bytes(content)


def _say_other_pairs(content: JsonObject, layout: Layout) -> None:
    """Warns if a tokenizer.json composes pairs of texts differently from the family."""
    step = content.section("post_processor")
    steps = step.items_of("processors", dict) if "processors" in step else [step]
    # transformers 5.24 gives DeBERTa's pairs two separators (tokenization_deberta.py).
    templates = [step.items_of("pair", dict) for step in steps if step.get("pair")]
    for template in templates if layout.pair else ():
        in_file = [part.section("Sequence").take("id", str) for part in template]
        in_layout = [part.name if part.is_text else None for part in layout.parts(2)]
        if in_file != in_layout:
            log.warning(
                "%s puts %d special tokens around the two texts of a pair, but models of this family were "
                "trained with %d, as bert_zoo does. If this model was fine-tuned on pairs as in the file, set "
                "model.preprocessor = model.preprocessor.with_options(layout=...).",
                content.where,
                in_file.count(None),
                in_layout.count(None),
            )


# -------------------------------------------------------------------------------------------------
# Writes tokenizers as Hugging Face's files: tokenizer.json as plain data, and transformers' other files.
#
# The library tokenizers reads tokenizer.json in Python, Rust and JavaScript. It is written without that library.
# -------------------------------------------------------------------------------------------------

TOKENIZER_FILE, CONFIG_FILE = "tokenizer.json", "tokenizer_config.json"


def sequence(steps: Iterable[Mapping[str, Any]], kind: str) -> dict[str, Any]:
    """A sequence of steps; `kind` is the format's name of the steps, such as "normalizers"."""
    return {"type": "Sequence", kind: [*steps]}


def serialized(
    model: Mapping[str, Any],
    added: Mapping[int, Mapping[str, Any]],
    *,
    normalizer: Mapping[str, Any] | None,
    pre_tokenizer: Mapping[str, Any],
    decoder: Mapping[str, Any],
    post_processor: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The content of a tokenizer.json of these parts; `added` by id is as in tokenizer_config.json."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": index, **added[index]} for index in sorted(added)],
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": post_processor,
        "decoder": decoder,
        "model": model,
    }


def bpe_model(ids: Mapping[str, int], merges: Iterable[tuple[str, str]], **options: Any) -> dict:
    """A byte pair encoding; `options` differ from the format's defaults."""
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        **options,
        "vocab": dict(ids),
        "merges": [[*pair] for pair in merges],
    }


def bert_normalizer(
    *, lowercase: bool, strip_accents: bool | None = None, split_cjk: bool = True
) -> dict[str, Any]:
    return {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": split_cjk,
        "strip_accents": strip_accents,
        "lowercase": lowercase,
    }


def with_rows(
    preprocessor: TextPreprocessor, *, special_in_text: bool = False
) -> dict[str, Any] | None:
    """The content of a preprocessor's tokenizer.json, which composes rows in the model's layout, or None if Hugging
    Face's library has none. With `special_in_text`, special tokens in a text become their own ids whatever the
    tokenizer's options are, as in transformers.
    """
    return framed(
        preprocessor.tokenizer, preprocessor.packer.layout, special_in_text=special_in_text
    )


def framed(
    tokenizer: Tokenizer, layout: Layout | None = None, *, special_in_text: bool = False
) -> dict[str, Any] | None:
    """The content of a tokenizer's tokenizer.json that composes rows in a layout, by default with the class and
    separator tokens that it has; None if Hugging Face's library has none.
    """
    if layout is None:
        cls, sep = (
            mark if hasattr(tokenizer, f"{mark.strip()}_id") else "" for mark in ("cls ", " sep")
        )
        layout = Layout(f"{cls}A{sep}", f"{cls}A{sep} B{sep}", segments=False)
    content = tokenizer.serialized(special_in_text=special_in_text)
    if content is not None:
        rows, before = composing(layout, tokenizer), content["post_processor"]
        content["post_processor"] = sequence([before, rows], "processors") if before else rows
    return content


def composing(layout: Layout, tokenizer: Tokenizer) -> dict[str, Any]:
    """The post-processor that puts special tokens around a text, or around the two texts of a pair."""
    ids = {role: int(getattr(tokenizer, f"{role}_id")) for role in layout.roles}
    tokens = {role: tokenizer.id_to_token(index) for role, index in ids.items()}

    def template(parts: Iterable[Part]) -> list[dict[str, Any]]:
        return [
            {"Sequence": {"id": part.name, "type_id": part.segment}}
            if part.is_text
            else {"SpecialToken": {"id": tokens[part.name], "type_id": part.segment}}
            for part in parts
        ]

    # The format always has a template for pairs.
    pair = layout.parts(2) if layout.pair else [Part(name, i) for i, name in enumerate(TEXTS)]
    return {
        "type": "TemplateProcessing",
        "single": template(layout.parts(1)),
        "pair": template(pair),
        "special_tokens": {
            token: {"id": token, "ids": [ids[role]], "tokens": [token]}
            for role, token in tokens.items()
        },
    }


def save_for_transformers(
    directory: str | Path,
    preprocessor: TextPreprocessor | DeferredPreprocessor,
    form: TextFormat,
    *,
    names_padding: bool = False,
) -> None:
    """Writes the files with which transformers reads texts like a model: the vocabulary's files and, if Hugging Face's
    library has the tokenizer, tokenizer.json. A preprocessor that cannot be made without tensorflow_text writes the
    files that it was read from. `names_padding` names a padding token even if the tokenizer has none.
    """
    directory = Path(directory)
    preprocessor.save_vocabulary(directory)
    if isinstance(preprocessor, DeferredPreprocessor):
        return
    path = directory / CONFIG_FILE
    config = read_object(path)
    layout = preprocessor.packer.layout
    # The inputs of transformers' classes change between versions.
    names = ["input_ids", "token_type_ids", "attention_mask"]
    config["model_input_names"] = names if layout.segments else [names[0], names[2]]
    config["padding_side"] = layout.padding_side
    if names_padding:
        token = preprocessor.tokenizer.id_to_token(preprocessor.packer.pad_id)
        config.setdefault("pad_token", token)
    content = with_rows(preprocessor, special_in_text=True)
    if content is not None:
        config["tokenizer_class"] = form.transformers_class
        write_json(directory / TOKENIZER_FILE, content)
    write_json(path, config)
