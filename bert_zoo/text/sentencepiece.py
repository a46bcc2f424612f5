"""SentencePiece in the graph, as the originals of ALBERT and XLM-RoBERTa use it."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_zoo.text.albert_text import TextCleaner
from bert_zoo.text.tokenizer import HF_SPECIAL_TOKENS, Tokenizer, import_tensorflow_text
from bert_zoo.text.vocabulary import Vocabulary

SPACE = "▁"  # stands for a space inside pieces

# UTF-8 never has this byte, so it can mark special tokens in texts that were made UTF-8.
_MARK = b"\xff"


class Scheme(NamedTuple):
    """What a family's original code adds to a SentencePiece model.

    The token ids are those of `first_tokens`, then the model's pieces without the
    `replaced_pieces` that it begins with, then `last_tokens`.
    """

    model_file: str
    tokenizer_class: str  # Hugging Face's
    replaced_pieces: tuple[str, ...]
    first_tokens: tuple[str, ...]
    last_tokens: tuple[str, ...]
    special_tokens: dict[str, str]  # by keys of SPECIAL_TOKENS
    splits_number_commas: bool
    next_line_is_space: bool  # U+0085, at which Hugging Face splits; the library knows it not
    options: dict[str, bool]  # the tokenizer's options where none are given


SCHEMES = {
    "albert": Scheme(
        model_file="spiece.model",
        tokenizer_class="AlbertTokenizer",
        replaced_pieces=(),
        first_tokens=(),
        last_tokens=(),
        special_tokens={
            "unknown_token": "<unk>",
            "padding_token": "<pad>",
            "cls_token": "[CLS]",
            "sep_token": "[SEP]",
            "mask_token": "[MASK]",
        },
        splits_number_commas=True,
        next_line_is_space=False,
        options={
            "lowercase": True,
            "remove_space": True,
            "keep_accents": False,
            "rewrite_quotes": False,
            "special_tokens_in_text": False,
        },
    ),
    # fairseq's dictionary puts four tokens before the pieces, three of which the model has too.
    "xlm_roberta": Scheme(
        model_file="sentencepiece.bpe.model",
        tokenizer_class="XLMRobertaTokenizer",
        replaced_pieces=("<unk>", "<s>", "</s>"),
        first_tokens=("<s>", "<pad>", "</s>", "<unk>"),
        last_tokens=("<mask>",),
        special_tokens={
            "unknown_token": "<unk>",
            "padding_token": "<pad>",
            "cls_token": "<s>",
            "sep_token": "</s>",
            "mask_token": "<mask>",
        },
        splits_number_commas=False,
        next_line_is_space=True,
        options={
            "lowercase": False,
            "remove_space": False,
            "keep_accents": True,
            "rewrite_quotes": False,
            "special_tokens_in_text": True,
        },
    ),
}


class SentencePieceTokenizer(Tokenizer):
    """The tokenizer of ALBERT or XLM-RoBERTa, around the SentencePiece library.

    ALBERT: ids equal those of Google's `preprocess_text` and `encode_ids` on every text. A piece of
    a digit and a comma is split, its digits encoded anew as a word: "▁1," becomes "▁1" and ",".
    XLM-RoBERTa: ids of the SentencePiece library in fairseq's numbering, which are Hugging Face's
    but for rare characters.

    Bytes that are not UTF-8 count as U+FFFD. Of segmentations that are equally likely (in long runs
    of one letter), the one that sentencepiece 0.1.91 to 0.2.1 choose is taken; 0.1.83 and those
    since 0.2.2 choose others.

    Args:
        model: the bytes of a SentencePiece model file; `from_file` reads them.
        family: "albert" or "xlm_roberta"; see SCHEMES, which also has the options' defaults.
        lowercase, remove_space, keep_accents, rewrite_quotes: see TextCleaner.
        special_tokens_in_text: special tokens in a text become their own ids, and what stands
            between them is encoded by itself, as Hugging Face does. Without it they are ordinary
            text, as in Google's code: "[MASK]" in an ALBERT text is no mask.

    Raises:
        ValueError: an unknown family, bytes that are no SentencePiece model, or one that lacks
            pieces that the family needs.
        ImportError: tensorflow_text is missing or broken.

    Source: Kudo and Richardson 2018; google-research/albert tokenization.py; fairseq's and Hugging
    Face's XLM-R.
    """

    def __init__(
        self,
        model: bytes,
        family: str,
        *,
        lowercase: bool | None = None,
        remove_space: bool | None = None,
        keep_accents: bool | None = None,
        rewrite_quotes: bool | None = None,
        special_tokens_in_text: bool | None = None,
    ):
        if family not in SCHEMES:
            raise ValueError(f"No SentencePiece family {family!r}; there are {sorted(SCHEMES)}.")
        scheme = SCHEMES[family]
        given = {
            "lowercase": lowercase,
            "remove_space": remove_space,
            "keep_accents": keep_accents,
            "rewrite_quotes": rewrite_quotes,
            "special_tokens_in_text": special_tokens_in_text,
        }
        options = {
            name: scheme.options[name] if value is None else bool(value)
            for name, value in given.items()
        }
        with tf.init_scope(), tf.device("CPU:0"):
            sentencepiece = _load(model)
            pieces = _pieces(sentencepiece)
            vocabulary = Vocabulary(_tokens(pieces, scheme))
            super().__init__("sentencepiece_tokenizer", vocabulary, scheme.special_tokens)
            # A plain object, so that tf.Module does not track what is inside it.
            self._settings = SimpleNamespace(
                model=model, family=family, scheme=scheme, options=options
            )
            special_tokens = {
                token: vocabulary.id_of(token) for token in scheme.special_tokens.values()
            }
            # Held, so that a SavedModel has it.
            self._sentencepiece = sentencepiece
            self._graph = _Graph(
                sentencepiece=sentencepiece,
                cleaner=TextCleaner(
                    lowercase=options["lowercase"],
                    remove_space=options["remove_space"],
                    keep_accents=options["keep_accents"],
                    rewrite_quotes=options["rewrite_quotes"],
                    next_line_is_space=scheme.next_line_is_space,
                ),
                token_ids=_token_ids(pieces, vocabulary, self.unk_id, sentencepiece, scheme),
                special_tokens=special_tokens if options["special_tokens_in_text"] else {},
            )
            # What detokenize joins: special tokens are words.
            self._words = tf.constant(
                [SPACE + token if token in special_tokens else token for token in vocabulary.tokens]
            )
        # One traced function: fast outside tf.data too, and part of a SavedModel.
        self._tokenize = tf.function(
            self._graph.tokenize,
            input_signature=[tf.TensorSpec([None], tf.string, name="texts")],
            autograph=False,
        )

    @classmethod
    def from_file(
        cls, path: str | Path, family: str, **options: bool | None
    ) -> SentencePieceTokenizer:
        """Makes a tokenizer from a model file; errors name the file.

        Args:
            path: spiece.model, sentencepiece.bpe.model or another SentencePiece model.
            family, **options: as for the constructor.

        Raises:
            FileNotFoundError: no such file.
            ValueError: what the constructor refuses.
        """
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(
                f"There is no file {path}. Pass the SentencePiece model that was released with the "
                "checkpoint (spiece.model for ALBERT, sentencepiece.bpe.model for XLM-RoBERTa)."
            )
        try:
            return cls(path.read_bytes(), family, **options)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        joined = tf.strings.reduce_join(tf.gather(self._words, ids), axis=1)
        return tf.strings.strip(tf.strings.regex_replace(joined, f"{SPACE}+", " "))

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments but for the model, ready for JSON."""
        return {"family": self._settings.family, **self._settings.options}

    def save(self, directory: str | Path) -> None:
        """Writes the model file and tokenizer_config.json under Hugging Face's names."""
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        scheme, options = self._settings.scheme, dict(self._settings.options)
        config = {
            "tokenizer_class": scheme.tokenizer_class,
            "do_lower_case": options.pop("lowercase"),
            **options,
            **{HF_SPECIAL_TOKENS[option]: t for option, t in scheme.special_tokens.items()},
        }
        (directory / scheme.model_file).write_bytes(self._settings.model)
        (directory / "tokenizer_config.json").write_text(
            json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )


class _Graph(NamedTuple):
    """The constants and the graph of a SentencePieceTokenizer."""

    sentencepiece: Any  # tensorflow_text's tokenizer
    cleaner: TextCleaner
    token_ids: tf.RaggedTensor  # int32 [pieces, (token ids)]
    special_tokens: dict[str, int]  # those that are found in texts

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Tokenizes string [batch] to int32 [batch, (tokens)]."""
        if not self.special_tokens:
            return self._encode(texts)
        pattern = "|".join(map(re.escape, self.special_tokens))
        found = tf.strings.regex_full_match(texts, rf"\C*?(?:{pattern})\C*")
        ids, row_splits = tf.cond(
            tf.reduce_any(found),
            lambda: _parts(self._encode_around_special_tokens(texts, pattern)),
            lambda: _parts(self._encode(texts)),
        )
        return tf.RaggedTensor.from_row_splits(ids, row_splits, validate=False)

    def _encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        pieces = self.sentencepiece.tokenize(self.cleaner(texts))
        ids = tf.gather(self.token_ids, pieces.values)
        return tf.RaggedTensor.from_row_splits(
            ids.values, tf.gather(ids.row_splits, pieces.row_splits), validate=False
        )

    def _encode_around_special_tokens(self, texts: tf.Tensor, pattern: str) -> tf.RaggedTensor:
        texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")
        marked = tf.strings.regex_replace(texts, f"({pattern})", _MARK + rb"\1" + _MARK)
        segments = tf.strings.split(marked, _MARK)
        is_token = segments.values[:, None] == list(self.special_tokens)
        is_text = ~tf.reduce_any(is_token, axis=1)
        ids = self._encode(tf.where(is_text, segments.values, ""))
        # A segment is either text, or one special token and so without ids of its own.
        special_ids = tf.gather(list(self.special_tokens.values()), tf.where(is_token)[:, 1])
        special = tf.RaggedTensor.from_row_lengths(special_ids, tf.cast(~is_text, tf.int64))
        ids = tf.concat([ids, special], axis=1)
        return tf.RaggedTensor.from_row_splits(
            ids.values, tf.gather(ids.row_splits, segments.row_splits), validate=False
        )


def _parts(ragged: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
    return ragged.values, ragged.row_splits


def _load(model: bytes) -> Any:
    """Returns tensorflow_text's tokenizer for a model, which it carries in the graph."""
    tensorflow_text = import_tensorflow_text()
    # In a loaded SavedModel the library finds the model by its name: two models of one name, in one
    # process, would be one (tensorflow_text 2.21).
    name = f"sentencepiece_{hashlib.sha256(model).hexdigest()[:32]}"
    try:
        return tensorflow_text.SentencepieceTokenizer(model, out_type=tf.int32, name=name)
    except (tf.errors.InternalError, tf.errors.InvalidArgumentError) as error:
        raise ValueError(
            f"These {len(model)} bytes are not a SentencePiece model: {error.message.strip()} Fetch "
            "the file again; a few hundred bytes are often a Git LFS pointer or an error page, and "
            "a vocab.txt belongs to a WordPiece tokenizer."
        ) from error


def _pieces(sentencepiece: Any) -> list[str]:
    indices = tf.range(sentencepiece.vocab_size())
    return [piece.decode("utf-8") for piece in sentencepiece.id_to_string(indices).numpy()]


def _tokens(pieces: list[str], scheme: Scheme) -> list[str]:
    """Returns the tokens in the order of their ids."""
    begins = pieces[: len(scheme.replaced_pieces)]
    if begins != list(scheme.replaced_pieces):
        raise ValueError(
            f"The SentencePiece model begins with the pieces {begins}; {scheme.tokenizer_class} has "
            f"{list(scheme.replaced_pieces)} there. Check that it is the model of this family."
        )
    return [*scheme.first_tokens, *pieces[len(begins) :], *scheme.last_tokens]


def _token_ids(
    pieces: list[str], vocabulary: Vocabulary, unk_id: int, sentencepiece: Any, scheme: Scheme
) -> tf.RaggedTensor:
    """Returns the token ids that each piece becomes, int32 [pieces, (ids)]; mostly one."""
    ids = {token: index for index, token in enumerate(vocabulary.tokens)}
    rows = [[ids.get(piece, unk_id)] for piece in pieces]
    if scheme.splits_number_commas:
        comma_id = vocabulary.id_of(",", "comma")
        split = [i for i, piece in enumerate(pieces) if _is_number_with_comma(piece)]
        # Google's code means to take away a space that this puts before digits inside a word, but
        # compares a str with bytes, which never are equal: the space stays.
        digits = [pieces[i][:-1].replace(SPACE, "") for i in split]
        encoded_digits = sentencepiece.tokenize(tf.constant(digits, tf.string)).to_list()
        for i, encoded in zip(split, encoded_digits, strict=True):
            rows[i] = [*(rows[piece][0] for piece in encoded), comma_id]
    return tf.RaggedTensor.from_row_lengths(
        np.concatenate([np.array(row, np.int32) for row in rows]), [len(row) for row in rows]
    )


def _is_number_with_comma(piece: str) -> bool:
    return piece.endswith(",") and piece[-2:-1].isdigit()
