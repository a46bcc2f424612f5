"""The base class of tokenizers: texts in, ids out, and access to the vocabulary."""

from __future__ import annotations

import copy
import hashlib
import importlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, Self

import numpy as np

from bert_zoo.forks import refuse_fork
from bert_zoo.graph import MISSING, has_tensorflow, tf
from bert_zoo.private import count_traces_alone
from bert_zoo.text.batches import replaced, text_batch
from bert_zoo.text.files import HF_SPECIAL_TOKENS, AddedToken, Vocabulary, distinct_tokens, extended


class SpecialToken(NamedTuple):
    """The role of a special token."""

    attribute: str  # attribute of the tokenizer with the token's id
    called: str  # its name in errors
    in_text: bool = True  # whether detokenize shows it


# By the tokenizer's option that names the token.
SPECIAL_TOKENS = {
    "unknown_token": SpecialToken("unk_id", "unknown token"),
    "padding_token": SpecialToken("pad_id", "padding token", in_text=False),
    "cls_token": SpecialToken("cls_id", "class token", in_text=False),
    "sep_token": SpecialToken("sep_id", "separator token", in_text=False),
    "mask_token": SpecialToken("mask_id", "mask token"),
    "eos_token": SpecialToken("eos_id", "end token"),
}


# Strips ASCII's white space, in `Tokenizer.joints`.
STRIPPED = ("^[ \t\n\v\f\r]+|[ \t\n\v\f\r]+\\z", "")


class Marks(NamedTuple):
    """The mark by which a vocabulary shows where words begin or end; it has at most one of these."""

    inside: str = ""  # before a token that continues a word
    begins: str = ""  # before a token that begins a word
    ends: str = ""  # after a token that ends a word
    unfinished: str = ""  # after a token that does not end a word


class Piece(NamedTuple):
    """The text of a token, and whether it is joined to its neighbours."""

    text: str  # without the vocabulary's marks
    # Whether no space separates it from the token before, or after; None if the token does not show it.
    joins_before: bool | None
    joins_after: bool | None


# From string [batch] to int32 [batch, (tokens)], or with offsets to [batch, (tokens), 3]: ids, starts
# and ends.
TokenizeFunction = Callable[["tf.Tensor"], "tf.RaggedTensor"]


class Tokenizer(tf.Module):
    """Base class of tokenizers in the graph. Subclasses define `_build` and call `_build_graph` last. Without
    TensorFlow there is no graph. The tokenizer then only has its vocabulary and its description (`serialized`), by
    which `bert_zoo.text.windows` reads texts.

    Args:
        vocabulary: the tokens that texts are spelled with.
        added_tokens: tokens that are kept whole, besides the special tokens: strings, `AddedToken`s, or
            dictionaries of its fields. Those that the vocabulary lacks follow it, in their order. None
            for a tokenizer without this option.
        **options: options of the constructor, ready for JSON. Those named in SPECIAL_TOKENS are the
            special tokens by their roles, None for roles that the tokenizer does not have.

    Attributes:
        unk_id, pad_id, cls_id, sep_id, mask_id, eos_id: ids of the special tokens that it has.
    """

    _untracked: SimpleNamespace | None = None
    # The kind of the tokens, and where `eos_token` is inserted; see `WordLevelTokenizer`.
    unit = "subword"
    eos_at = "never"
    marks = Marks()
    # How tokens are joined to a text: what stands between them, and replacements (pattern, rewrite) in the whole.
    separator = ""
    joints: tuple[tuple[str, str], ...] = ()
    # Whether a mask token includes the white space before it.
    mask_takes_space = False

    def __new__(cls, *args: Any, **kwargs: Any):
        tokenizer = super().__new__(cls)
        # The constructor's arguments, for `__reduce__`. A plain object, so that tf.Module does not track them.
        tokenizer._arguments = SimpleNamespace(args=args, kwargs=kwargs)
        return tokenizer

    def __reduce__(self):
        # Tables and graphs cannot be pickled or copied, so they are made again.
        return made_of, (type(self), self._arguments.args, self._arguments.kwargs)

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        added_tokens: Iterable[AddedToken | str | Mapping[str, Any]] | None = None,
        **options: Any,
    ):
        refuse_fork()
        super().__init__()
        # Plain objects, so that tf.Module does not track their contents.
        self._base_vocabulary = self._vocabulary = vocabulary
        self._options = SimpleNamespace(**options)
        if added_tokens is not None:
            roles = self._tokens_of_roles()
            added = {
                content: replace(token, special=token.special or content in roles)
                for content, token in distinct_tokens(added_tokens).items()
            }
            if not all(content in vocabulary for content in added):
                self._vocabulary = Vocabulary(extended(vocabulary.tokens, added.values()))
            # Without special tokens that have their default settings.
            self._options.added_tokens = [
                token.as_config()
                for content, token in added.items()
                if not (content in vocabulary and token == roles.get(content))
            ]
        for option, role in SPECIAL_TOKENS.items():
            if options.get(option) is not None:
                index = self._vocabulary.id_of(options[option], role.called)
                setattr(self, role.attribute, index)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's options, without vocabulary and merges, ready for JSON."""
        return copy.deepcopy(vars(self._options))

    def with_options(self, **changes: Any) -> Self:
        """Returns a tokenizer with the same vocabulary and some changed options of the constructor."""
        return type(self)(*self._arguments.args, **{**self._arguments.kwargs, **changes})

    def with_added_tokens(self, tokens: Iterable[AddedToken | str | Mapping[str, Any]]) -> Self:
        """Returns a tokenizer with further added tokens; those that the vocabulary lacks follow it.

        Raises:
            TypeError: the tokenizer cannot have added tokens.
        """
        if not hasattr(self._options, "added_tokens"):
            raise TypeError(
                f"A {type(self).__name__} has no added tokens. Extend its vocabulary instead."
            )
        return self.with_options(added_tokens=[*self._options.added_tokens, *tokens])

    @tf.autograph.experimental.do_not_convert
    def __call__(self, texts: Any) -> tf.RaggedTensor:
        """Tokenizes a batch of texts, without adding special tokens.

        Args:
            texts: a str (a batch of one), a list or array of them, or a string tensor [batch].

        Returns:
            int32 [batch, (tokens)].

        Raises:
            TypeError, ValueError: `texts` is not a batch of texts.
            ImportError: TensorFlow is missing.
        """
        self._check_has_graph()
        return self._tokenize(text_batch(texts))

    def tokenize(self, texts: Any) -> tf.RaggedTensor:
        """The same as calling the tokenizer; the name is that of TF-Hub's preprocessors."""
        return self(texts)

    @tf.autograph.experimental.do_not_convert
    def tokenize_with_offsets(
        self, texts: Any
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Tokenizes a batch of texts and returns which characters each token covers.

        Token i of a text `s` covers `s[starts[i] : ends[i]]`. Offsets count characters (Unicode code
        points) of the original text, like the index of a Python str. They equal those of Hugging Face's
        fast tokenizers unless the tokenizer's class says otherwise. Tokens may share characters, such as
        the parts of a Hangul syllable. In bytes that are not UTF-8, each malformed sequence counts as one
        U+FFFD, as in `tf.strings.unicode_decode`.

        Args:
            texts: as for a call.

        Returns:
            Three int32 [batch, (tokens)]: ids, as from a call; starts, the position of each token's
            first character; ends, the position after its last character.

        Raises:
            TypeError, ValueError, ImportError: as for a call.
            NotImplementedError: the tokenizer has no offsets (Transformer-XL's, GPT's, BERTweet's).
        """
        self._check_has_graph()
        if self._untracked is None:
            raise NotImplementedError(
                f"A {type(self).__name__} has no offsets of tokens. Use a tokenizer of another family, "
                "such as BERT's, RoBERTa's or ALBERT's."
            )
        tokens = self._untracked.tokenize_with_offsets(text_batch(texts))
        ids, starts, ends = (tokens.with_values(tokens.values[:, i]) for i in range(3))
        return ids, starts, ends

    def _check_has_graph(self) -> None:
        if not has_tensorflow:
            raise ImportError(
                MISSING.format(f"Calling a {type(self).__name__}")
                + " Without it, model.preprocessor.tokenize(texts) gives ids."
            )

    def serialized(self, *, special_in_text: bool = False) -> dict[str, Any] | None:
        """Returns this tokenizer as the content of a tokenizer.json of Hugging Face's library tokenizers.

        It adds no special tokens; `bert_zoo.text.format.with_rows` does. None if that library has no
        such tokenizer.

        Args:
            special_in_text: special tokens in a text become their own ids whatever the options are, as
                in transformers.
        """
        return None

    @property
    def split_tokens(self) -> dict[int, list[int]]:
        """Id of a token of `serialized` -> this tokenizer's ids, where it splits the token into several."""
        return {}

    @property
    def rust_differences(self) -> tuple[str, ...]:
        """Sentences on how ids or offsets of `serialized`, after `split_tokens`, differ from this tokenizer's."""
        return ()

    @property
    def added_tokens(self) -> dict[int, AddedToken]:
        """Id -> token that is kept whole in texts: the special tokens and the added ones."""
        tokens = self._tokens_of_roles() | distinct_tokens(self._options.added_tokens)
        return dict(
            sorted((self._vocabulary.id_of(content), token) for content, token in tokens.items())
        )

    def _tokens_in_text(self) -> dict[int, dict[str, Any]]:
        """`added_tokens` in the form of tokenizer_config.json."""
        return {index: token.as_dict() for index, token in self.added_tokens.items()}

    def _tokens_of_roles(self) -> dict[str, AddedToken]:
        """The special tokens by their content, with default settings."""
        named = (getattr(self._options, option, None) for option in SPECIAL_TOKENS)
        return {
            content: AddedToken(content, special=True) for content in named if content is not None
        }

    def _build_graph(self) -> None:
        """Makes tables and functions of the graph, if TensorFlow is installed; a constructor's last step."""
        if has_tensorflow:
            with tf.init_scope(), tf.device("CPU:0"):
                self._build()
                self._spellings = tf.constant([*map(self._spelling, self.vocabulary)])

    def _build(self) -> None:
        """Makes the tables, and calls `_trace` with the functions that tokenize."""
        raise NotImplementedError

    def _trace(self, tokenize: TokenizeFunction, with_offsets: TokenizeFunction | None = None):
        """Traces the functions that tokenize, so that they are fast outside tf.data too."""
        texts = tf.TensorSpec([None], tf.string, name="texts")
        # As an attribute, the function is in every SavedModel that has the tokenizer. The one with
        # offsets, in a plain object, is only in those that call it.
        self._tokenize = traced_once(tokenize, texts)
        if with_offsets is not None:
            self._untracked = SimpleNamespace(
                tokenize_with_offsets=traced_once(with_offsets, texts)
            )

    def detokenize(self, token_ids: Any) -> tf.Tensor:
        """Joins tokens to texts, without padding, class and separator tokens.

        Args:
            token_ids: integers [batch, length] or [batch, (tokens)].

        Returns:
            string [batch].

        Raises:
            ValueError: another shape.
            tf.errors.InvalidArgumentError: an id outside the vocabulary.
        """
        if not isinstance(token_ids, tf.RaggedTensor):
            token_ids = tf.convert_to_tensor(token_ids)
            if token_ids.shape.rank != 2:
                raise ValueError(
                    f"token_ids has shape {token_ids.shape}; it must be [batch, length] or a ragged "
                    "tensor [batch, (tokens)]. Add a batch dimension."
                )
            token_ids = tf.RaggedTensor.from_tensor(token_ids)
        ids = tf.cast(token_ids, tf.int32)
        hidden = tf.constant([*self._hidden_ids], tf.int32)
        shown = tf.reduce_all(ids.flat_values[:, None] != hidden, axis=1)
        return self._join(tf.ragged.boolean_mask(ids, ids.with_flat_values(shown)))

    def detokenized(self, rows: Iterable[Sequence[int]]) -> list[bytes]:
        """Does the same as `detokenize` outside of a graph and without TensorFlow.

        Returns:
            The text of each row of ids, in UTF-8, unless a row ends within a character.

        Raises:
            ValueError: an id outside the vocabulary.
        """
        hidden = self._hidden_ids
        tokens = (
            [self.id_to_token(index) for index in map(int, row) if index not in hidden]
            for row in rows
        )
        return [*map(self._joined, tokens)]

    @property
    def _hidden_ids(self) -> set[int]:
        """The ids of the special tokens that texts do not show."""
        names = [role.attribute for role in SPECIAL_TOKENS.values() if not role.in_text]
        return {getattr(self, name) for name in names if hasattr(self, name)}

    def _spelling(self, token: str) -> str | bytes:
        """The text of a token before joining."""
        return token

    def _joined(self, tokens: list[str]) -> bytes:
        """Joins tokens to the bytes of a text."""
        spelled = map(self._spelling, tokens)
        parts = (part if isinstance(part, bytes) else part.encode() for part in spelled)
        text = self.separator.encode().join(parts)
        for pattern, rewrite in self.joints:
            text = re.sub(pattern.replace(r"\z", r"\Z").encode(), rewrite.encode(), text)
        return text

    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Joins the tokens of int32 [batch, (tokens)] to string [batch]."""
        spelled = tf.gather(self._spellings, ids)
        joined = tf.strings.reduce_join(spelled, axis=1, separator=self.separator)
        return replaced(joined, self.joints)

    def save(self, directory: str | Path) -> None:
        """Writes the vocabulary's files and tokenizer_config.json, with transformers' file names."""
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in self._files().items():
            if isinstance(content, dict):
                content = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
            data = content if isinstance(content, bytes) else content.encode("utf-8")
            (directory / name).write_bytes(data)

    def _config(self, tokenizer_class: str, **settings: Any) -> dict[str, Any]:
        """The content of tokenizer_config.json: transformers' class, settings, and special tokens."""
        named = {
            name: getattr(self._options, option, None) for option, name in HF_SPECIAL_TOKENS.items()
        }
        named = {theirs: token for theirs, token in named.items() if token is not None}
        return {"tokenizer_class": tokenizer_class, **settings, **named}

    def _files(self) -> dict[str, bytes | str | dict[str, Any]]:
        """File name -> content that `save` writes; a dict becomes JSON."""
        raise NotImplementedError

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """All tokens in the order of the ids, including added ones."""
        return self._vocabulary.tokens

    def digest(self) -> str:
        """A hash of the vocabulary and of all options, which determine the ids of a text."""
        options = {n: v for n, v in self.get_config().items() if n != "vocabulary"}
        content = [options, self.vocabulary]
        text = json.dumps(content, ensure_ascii=False, sort_keys=True, default=str)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def base_vocabulary(self) -> tuple[str, ...]:
        """The tokens that the constructor takes, without added ones."""
        return self._base_vocabulary.tokens

    @property
    def vocab_size(self) -> int:
        """Number of tokens."""
        return len(self._vocabulary)

    @property
    def sentinel_ids(self) -> tuple[int, ...]:
        """Ids of the sentinels of hidden spans, `<extra_id_0>` first; empty if there are none."""
        found: list[int] = []
        while True:
            token = f"<extra_id_{len(found)}>"
            # In a SentencePiece model, the piece begins with a space.
            name = next((t for t in (token, f"▁{token}") if t in self._vocabulary), None)
            if name is None:
                return tuple(found)
            found.append(self.token_to_id(name))

    @property
    def word_starts(self) -> np.ndarray:
        """bool [vocab_size], whether each token begins a word; the first token of a text always does."""
        return np.array([self._begins_word(token) for token in self.vocabulary])

    def _begins_word(self, token: str) -> bool:
        return True

    def id_to_token(self, index: int) -> str:
        """Returns the token of an id; ValueError for an id outside the vocabulary."""
        return self._vocabulary.token_of(index)

    def piece(self, index: int) -> Piece:
        """Returns the text of an id's token; ValueError for an id outside the vocabulary."""
        token, marks = self.id_to_token(index), self.marks
        before = (bool(marks.inside) and token.startswith(marks.inside)) or None
        after = token.endswith(marks.unfinished) if marks.unfinished else None
        text = self._letters(token).removeprefix(marks.inside)
        return Piece(
            text.removesuffix(marks.ends or marks.unfinished).strip() or token,
            not token.startswith(marks.begins) if marks.begins else before,
            not token.endswith(marks.ends) if marks.ends else after,
        )

    def _letters(self, token: str) -> str:
        """A token's text, with blanks for the marks of words' beginnings."""
        return token.replace(self.marks.begins, " ") if self.marks.begins else token

    def token_to_id(self, token: str) -> int:
        """Returns the id of a token; ValueError for one that the vocabulary lacks."""
        return self._vocabulary.id_of(token)


def made_of(cls: type, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Makes an instance of a class, for unpickling and copying."""
    return cls(*args, **kwargs)


def traced_once(function: Callable, *signature: tf.TensorSpec) -> Callable:
    """Returns the function as a graph that is traced once, when it is first called."""
    return count_traces_alone(tf.function(function, input_signature=signature, autograph=False))


def import_tensorflow_text() -> Any:
    """Returns the module tensorflow_text; an ImportError tells how to install a version that fits."""
    try:
        return importlib.import_module("tensorflow_text")
    except (ImportError, tf.errors.OpError) as error:
        legacy = "TF_USE_LEGACY_KERAS"
        # tensorflow_text imports tf.keras, which is another package then.
        if os.environ.get(legacy, "").lower() in ("1", "true") and not find_spec("tf_keras"):
            raise ImportError(
                f"{legacy} is set, but the package tf_keras is not installed. bert_zoo uses Keras 3. "
                f"Unset {legacy}, or install tf_keras for code that needs it."
            ) from error
        raise ImportError(
            f"bert_zoo's tokenizers need tensorflow_text, but importing it failed: {error}. Its "
            f"minor version must be that of TensorFlow ({tf.__version__}), and 2.21.0 does not load "
            "at all (tensorflow/text#1541). Run "
            f'pip install "tensorflow-text=={".".join(tf.__version__.split(".")[:2])}.*,!=2.21.0".'
        ) from error
