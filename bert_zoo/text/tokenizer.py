"""What every tokenizer shares: texts in, ids out, and access to its vocabulary."""

from __future__ import annotations

import copy
import importlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_zoo.error_text import shown
from bert_zoo.forks import refuse_fork
from bert_zoo.text.batches import text_batch
from bert_zoo.text.vocabulary import Vocabulary


class SpecialToken(NamedTuple):
    """A role that a special token may have."""

    attribute: str  # of the tokenizer, with the token's id
    called: str  # what errors call it
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
# From string [batch] to int32 [batch, (tokens)], or with offsets to [batch, (tokens), 3]: ids, starts
# and ends.
TokenizeFunction = Callable[[tf.Tensor], tf.RaggedTensor]


class Tokenizer(tf.Module):
    """A tokenizer in the graph; subclasses call `_trace` with what tokenizes.

    Args:
        vocabulary: its tokens.
        **options: of the constructor, ready for JSON; those named in SPECIAL_TOKENS give the tokens of
            the tokenizer's roles, and are None for roles that it does not have.

    Attributes:
        unk_id, pad_id, cls_id, sep_id, mask_id, eos_id: ids of the special tokens; a tokenizer has
            the attributes of its roles.

    Raises:
        ValueError: a special token that the vocabulary lacks.
    """

    _untracked: SimpleNamespace | None = None
    # What a token is, and where a text has `eos_token` beside its own spelling; see `WordLevelTokenizer`.
    unit = "subword"
    eos_at = "never"

    def __new__(cls, *args: Any, **kwargs: Any):
        tokenizer = super().__new__(cls)
        # Of the constructor, for `__reduce__`. A plain object, as tf.Module tracks what is inside others.
        tokenizer._arguments = SimpleNamespace(args=args, kwargs=kwargs)
        return tokenizer

    def __reduce__(self):
        # Tables and graphs cannot be pickled or copied; they are made anew.
        return made_of, (type(self), self._arguments.args, self._arguments.kwargs)

    def __init__(self, vocabulary: Vocabulary, **options: Any):
        refuse_fork()
        super().__init__()
        # Plain objects, so that tf.Module does not track what is inside them.
        self._vocabulary = vocabulary
        self._options = SimpleNamespace(**options)
        for option, role in SPECIAL_TOKENS.items():
            if options.get(option) is not None:
                setattr(self, role.attribute, vocabulary.id_of(options[option], role.called))

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's options, without vocabularies and the like, ready for JSON."""
        return copy.deepcopy(vars(self._options))

    @tf.autograph.experimental.do_not_convert
    def __call__(self, texts: Any) -> tf.RaggedTensor:
        """Tokenizes a batch of texts, without adding special tokens.

        Args:
            texts: a str (a batch of one), a list or array of them, or a string tensor [batch].

        Returns:
            int32 [batch, (tokens)].

        Raises:
            TypeError, ValueError: something that is not a batch of texts.
        """
        return self._tokenize(text_batch(texts))

    def tokenize(self, texts: Any) -> tf.RaggedTensor:
        """The same as calling the tokenizer, under the name that TF-Hub's preprocessors use."""
        return self(texts)

    @tf.autograph.experimental.do_not_convert
    def tokenize_with_offsets(
        self, texts: Any
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Tokenizes a batch of texts and says which characters each token stands for.

        Token i of a text `s` stands for `s[starts[i] : ends[i]]`: offsets count characters, which
        are Unicode code points, as an index of a Python str does, and belong to the text as it was
        passed. They are those of Hugging Face's fast tokenizers; where a family's differ, its
        tokenizer says so. Tokens may share characters (the parts of a Hangul syllable, say). In
        bytes that are not UTF-8, each malformed sequence counts as one U+FFFD, as
        `tf.strings.unicode_decode` has it.

        Args:
            texts: as for a call.

        Returns:
            ids, as calling the tokenizer gives them; starts, the position of each token's first
            character; ends, the position after its last one: int32 [batch, (tokens)] each.

        Raises:
            TypeError, ValueError: as for a call.
            NotImplementedError: a WordLevelTokenizer.
        """
        if self._untracked is None:
            raise NotImplementedError(
                f"{type(self).__name__} does not tell where in a text its tokens come from; the "
                "tokenizers of BERT's, RoBERTa's and ALBERT's families do."
            )
        tokens = self._untracked.tokenize_with_offsets(text_batch(texts))
        ids, starts, ends = (tokens.with_values(tokens.values[:, i]) for i in range(3))
        return ids, starts, ends

    def serialized(self, *, special_in_text: bool = False) -> dict[str, Any] | None:
        """The same tokenizer as tokenizer.json of Hugging Face's library tokenizers has it.

        It adds no special tokens; `bert_zoo.text.serialized.with_rows` does. None where that library has
        nothing like it.

        Args:
            special_in_text: whether special tokens in a text become their own ids whatever the
                options say, as they do in transformers.
        """
        return None

    @property
    def split_tokens(self) -> dict[int, list[int]]:
        """Tokens of `serialized` that are several of this tokenizer."""
        return {}

    @property
    def rust_differences(self) -> tuple[str, ...]:
        """On which texts ids of `serialized` are others, a sentence each."""
        return ()

    def _tokens_in_text(self) -> dict[int, dict[str, Any]]:
        """The special and added tokens, as tokenizer_config.json describes them, by id."""
        options = vars(self._options)
        special = {options.get(option) for option in SPECIAL_TOKENS}
        lstrip = options["mask_token"] if options.get("lstrip_mask") else None
        normalized = options.get("normalized_tokens", ())
        tokens = [*special_ids(self._options, self._vocabulary), *normalized]
        return {
            self.token_to_id(token): added_token(
                token,
                lstrip=token == lstrip,
                special=token in special,
                normalized=token in normalized,
            )
            for token in tokens
        }

    def _trace(self, tokenize: TokenizeFunction, with_offsets: TokenizeFunction | None = None):
        """Traces what tokenizes, so that it is fast outside tf.data too."""
        texts = tf.TensorSpec([None], tf.string, name="texts")
        # As an attribute, it is part of every SavedModel that has the tokenizer. The other one, in a
        # plain object, is part of those where something calls it.
        self._tokenize = traced_once(tokenize, texts)
        if with_offsets is not None:
            self._untracked = SimpleNamespace(
                tokenize_with_offsets=traced_once(with_offsets, texts)
            )

    def detokenize(self, token_ids: Any) -> tf.Tensor:
        """Joins tokens to text; padding, class and separator tokens are left out.

        Args:
            token_ids: integers [batch, length] or [batch, (tokens)].

        Returns:
            string [batch].

        Raises:
            ValueError: a shape other than those.
            tf.errors.InvalidArgumentError: an id outside the vocabulary.
        """
        if not isinstance(token_ids, tf.RaggedTensor):
            token_ids = tf.convert_to_tensor(token_ids)
            if token_ids.shape.rank != 2:
                raise ValueError(
                    f"token_ids has shape {token_ids.shape}; detokenize takes [batch, length] or a "
                    "ragged tensor [batch, (tokens)]. Add a batch dimension."
                )
            token_ids = tf.RaggedTensor.from_tensor(token_ids)
        ids = tf.cast(token_ids, tf.int32)
        roles = SPECIAL_TOKENS.values()
        attributes = [role.attribute for role in roles if not role.in_text]
        hidden = [getattr(self, name) for name in attributes if hasattr(self, name)]
        shown = tf.reduce_all(ids.flat_values[:, None] != tf.constant(hidden, tf.int32), axis=1)
        return self._join(tf.ragged.boolean_mask(ids, ids.with_flat_values(shown)))

    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Joins the tokens of int32 [batch, (tokens)] to string [batch]."""
        raise NotImplementedError

    def save(self, directory: str | Path) -> None:
        """Writes the vocabulary's files and tokenizer_config.json, as transformers names them."""
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in self._files().items():
            if isinstance(content, dict):
                content = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
            data = content if isinstance(content, bytes) else content.encode("utf-8")
            (directory / name).write_bytes(data)

    def _files(self) -> dict[str, bytes | str | dict[str, Any]]:
        """What `save` writes, by the name of the file; a dict becomes JSON."""
        raise NotImplementedError

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Every token, in the order of the ids."""
        return self._vocabulary.tokens

    @property
    def vocab_size(self) -> int:
        """Number of tokens."""
        return len(self._vocabulary)

    @property
    def word_starts(self) -> np.ndarray:
        """bool [vocab_size], whether a token begins a word; the first of a text does in any case."""
        return np.array([self._begins_word(token) for token in self.vocabulary])

    def _begins_word(self, token: str) -> bool:
        return True

    def id_to_token(self, index: int) -> str:
        """Returns the token of an id; ValueError for an id outside the vocabulary."""
        return self._vocabulary.token_of(index)

    def token_to_id(self, token: str) -> int:
        """Returns the id of a token; ValueError for one that the vocabulary lacks."""
        return self._vocabulary.id_of(token)


def made_of(cls: type, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """An instance of a class: what unpickling and copying call."""
    return cls(*args, **kwargs)


def traced_once(function: Callable, *signature: tf.TensorSpec) -> Callable:
    """The function as a graph that is traced when it is first called, and never again.

    TensorFlow counts traces by a function's code, of all objects that have it together, and warns from
    the fifth on that tracing is expensive: each tokenizer's first call would count.
    """
    graph = tf.function(function, input_signature=signature, autograph=False)
    graph._omit_frequent_tracing_warning = True
    return graph


def added_token(
    content: str, *, lstrip: bool = False, special: bool = False, normalized: bool = False
) -> dict[str, Any]:
    """An added token as tokenizer_config.json describes it."""
    return {
        "content": content,
        "lstrip": lstrip,
        "normalized": normalized,
        "rstrip": False,
        "single_word": False,
        "special": special,
    }


def special_ids(options: SimpleNamespace, vocabulary: Vocabulary) -> dict[str, int]:
    """The tokens that a tokenizer's options have it look for in raw texts, and their ids.

    Raises:
        ValueError: the vocabulary lacks one, or two of them can overlap in a text.
    """
    named = [getattr(options, option, None) for option in SPECIAL_TOKENS]
    tokens = [token for token in (*named, *options.added_tokens) if token is not None]
    distinct = list(dict.fromkeys(tokens))
    beginning_with: dict[str, list[str]] = {}
    for token in distinct:
        for stop in range(1, len(token) + 1):
            beginning_with.setdefault(token[:stop], []).append(token)
    for left in distinct:
        for start in range(1, len(left)):
            for right in beginning_with.get(left[start:], ())[:2]:
                if right != left:
                    raise ValueError(
                        f"The special tokens {shown(left)} and {shown(right)} can overlap in a text, "
                        "so which of them a text holds is ambiguous. Rename one of them."
                    )
    return {token: vocabulary.id_of(token, "added token") for token in distinct}


def import_tensorflow_text() -> Any:
    """Returns the module tensorflow_text, or says how to install one that fits."""
    try:
        return importlib.import_module("tensorflow_text")
    except (ImportError, tf.errors.OpError) as error:
        legacy = "TF_USE_LEGACY_KERAS"
        # It imports tf.keras, which is another package then.
        if os.environ.get(legacy, "").lower() in ("1", "true") and not find_spec("tf_keras"):
            raise ImportError(
                f"{legacy} is set, and the package that it asks for, tf_keras, is not installed. "
                f"bert_zoo uses Keras 3: unset {legacy}, or install tf_keras for code that needs it."
            ) from error
        raise ImportError(
            f"bert_zoo's tokenizers need tensorflow_text, and importing it failed: {error}. Its "
            "minor version has to be TensorFlow's, here "
            f"{tf.__version__}, and 2.21.0 does not load at all (tensorflow/text#1541): "
            f'pip install "tensorflow-text=={".".join(tf.__version__.split(".")[:2])}.*,!=2.21.0".'
        ) from error
