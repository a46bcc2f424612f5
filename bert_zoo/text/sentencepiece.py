"""SentencePiece in the graph, as the originals of ALBERT and XLM-RoBERTa use it."""

from __future__ import annotations

import base64
import contextlib
import copy
import hashlib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from bert_zoo.error_text import shortened
from bert_zoo.graph import has_tensorflow, tf
from bert_zoo.json_files import read_whole
from bert_zoo.private import lasting_sentencepiece
from bert_zoo.text.batches import (
    as_utf8,
    at_origins,
    characters_of_bytes,
    joined_rows,
    token_columns,
    utf8_lengths,
)
from bert_zoo.text.files import AddedToken, Vocabulary
from bert_zoo.text.format import sequence, serialized
from bert_zoo.text.normalizer import CharacterTable, Composition, TextCleaner
from bert_zoo.text.numpy_packing import rust_tokenizer
from bert_zoo.text.token_finder import AddedTokens
from bert_zoo.text.tokenizer import (
    STRIPPED,
    Marks,
    TokenizeFunction,
    Tokenizer,
    import_tensorflow_text,
)
from bert_zoo.text.unicode_tables import code_points, parse_ranges
from bert_zoo.text.vocabulary_files import (
    BLANK_AT_END,
    COMBINING,
    CONTROL,
    NORMAL,
    THEIR_WHITE_SPACE,
    UNIGRAM,
    USER,
    WHITE_SPACE,
    Scheme,
    character_rules,
    checked_sentencepiece_model,
    read_sentencepiece_model,
    scheme_tokens,
)


class PieceNormalizer(tf.Module):
    """Applies a family's cleaning (options of `TextCleaner`), the model's rules for single characters, and composition
    (NFC). Composition replaces the rules for letters with marks, which the released models have for NFKC. White
    space only changes where rules turn it into spaces.
    """

    def __init__(self, rules: bytes, **cleaning: bool):
        super().__init__()
        self._cleaner = TextCleaner(**cleaning)
        self._composition = Composition() if rules else None
        self._table = CharacterTable(
            {ord(char): [*map(ord, written)] for char, written in character_rules(rules).items()}
        )

    def tokenize(
        self, texts: tf.Tensor, tokenize: TokenizeFunction, *, with_offsets: bool
    ) -> tf.RaggedTensor:
        replaced, origins = self._table(self._cleaner(texts))
        if self._composition is not None:
            tokens = self._composition.tokenize(replaced, tokenize, with_offsets=with_offsets)
        else:
            tokens = tokenize(replaced)
        if not with_offsets:
            return tokens
        for places in (origins, self._cleaner.origins(texts)):
            tokens = at_origins(tokens, places.values, places.row_splits)
        return tokens

    def normalized(self, text: str) -> str:
        text = self._table(self._cleaner(tf.constant([text])))[0][0].numpy().decode()
        return text if self._composition is None else self._composition.normalized(text)


SPACE = "▁"  # a space inside pieces

# Characters that SentencePiece reads as a space, or drops, in nmt_nfkc, the released models' rules.
_BLANKS = "1-20 7f 8f 9f a0 1680 2000-200f 2028-2029 202f 205f 2581 3000 feff fffd"
# Longer than any piece.
_TO_THE_END = 1 << 20
# From texts to their pieces.
EncodeFunction = Callable[[list[str]], list[list[str]]]
Span = tuple[int, int]


class SentencePieceTokenizer(Tokenizer):
    """The tokenizer of ALBERT, XLM-RoBERTa and other families with a SentencePiece model.

    ALBERT: ids equal those of Google's `preprocess_text` and `encode_ids` on every text. A piece that
    ends in a digit and a comma is split, and its digits encoded again: "▁1," becomes "▁1" and ",".
    XLM-RoBERTa: ids equal those of the SentencePiece library in fairseq's numbering, which are Hugging
    Face's except for rare characters.

    Bytes that are not UTF-8 count as U+FFFD. Among equally likely segmentations (in long runs of one
    letter), it chooses as sentencepiece 0.1.91 to 0.2.1 do; 0.1.83, and versions since 0.2.2, differ.

    Args:
        model: the bytes of a SentencePiece model file; `from_file` reads them.
        scheme: the family's special tokens and ids, and the defaults of the options below.
        lowercase, remove_space, keep_accents, rewrite_quotes, compose: see
            `bert_zoo.text.normalizer.TextCleaner`.
        special_tokens_in_text: special tokens in a text become their own ids, as in Hugging Face's
            library. Without it they are ordinary text, as in Google's code: "[MASK]" in an ALBERT text
            is no mask.
        hugging_face_rules: follow Hugging Face's library where it differs from the family's original:
            pieces of a digit and a comma stay whole, white space is Unicode's, accents are all marks, and a
            capital sigma never becomes a final one. This is the default for directories with only a tokenizer.json.
        blank_at_end: keep a blank at the end of a text, or before a special token, as one token, as
            transformers 5.24 does for BigBird. The SentencePiece library drops it. This is the default for
            directories with only a tokenizer.json whose steps do not drop it.
        added_tokens: tokens that are kept whole in any case; see `AddedToken`. `PieceNormalizer`
            normalises texts for those with `normalized=True`.

    Raises:
        ValueError: bytes that are no SentencePiece model, or a model that lacks pieces that the family
            needs.
        TypeError: an option that the scheme does not have.
        ImportError: tensorflow_text is missing or broken.

    Source: Kudo and Richardson 2018; google-research/albert tokenization.py; fairseq's and Hugging
    Face's XLM-R.
    """

    marks = Marks(begins=SPACE)
    joints = ((f"(?:{SPACE})+", " "), STRIPPED)
    mask_takes_space = True

    def __init__(
        self,
        model: bytes,
        scheme: Scheme,
        *,
        added_tokens: Iterable[AddedToken | str | Mapping[str, Any]] = (),
        **options: bool | None,
    ):
        if unknown := sorted(options.keys() - scheme.options.keys()):
            raise TypeError(f"Unknown options {unknown}; choose from {sorted(scheme.options)}.")
        given = {name: bool(value) for name, value in options.items() if value is not None}
        options = {**scheme.options, **given}
        pieces = _checked_pieces(model)
        vocabulary = Vocabulary(scheme_tokens(pieces, scheme))
        super().__init__(vocabulary, **scheme.special_tokens, added_tokens=added_tokens)
        # A plain object, so that tf.Module does not track its contents.
        special = {token.content for token in self.added_tokens.values() if token.special}
        self._settings = SimpleNamespace(
            model=model, scheme=scheme, options=options, pieces=pieces, special=special
        )
        self._build_graph()

    def _build(self) -> None:
        settings = self._settings
        cleaning = {**settings.options, "spaces": self._spaces}
        in_text = cleaning.pop("special_tokens_in_text")
        self._blank_at_end = None
        if cleaning.pop("blank_at_end"):
            rules = character_rules(read_sentencepiece_model(settings.model).before.rules)
            blanks = [" ", *(char for char, written in rules.items() if written == " ")]
            self._blank_at_end = f"(?s).*[{''.join(map(re.escape, blanks))}]"
            known = SPACE in self._vocabulary.tokens
            self._blank_id = self.token_to_id(SPACE) if known else self.unk_id
        # Attributes, so that a SavedModel has them.
        self._sentencepiece = _load(settings.model)
        normalizer = None
        found = self._tokens_found(special_in_text=in_text)
        if any(token.normalized for token in found.values()):
            rules = read_sentencepiece_model(settings.model).before.rules
            normalizer = PieceNormalizer(rules, **{**cleaning, "remove_space": False})
        self._added = AddedTokens(found, normalizer)
        self._cleaner = TextCleaner(**cleaning)
        # int32 [pieces, (token ids)] and [pieces, (token ids), 2]: ids, and spans in pieces without spaces
        rows, spans = self._tokens_of_pieces(self._encoded_by_sentencepiece)
        lengths = [*map(len, rows)]
        self._token_ids, self._token_spans = (
            tf.RaggedTensor.from_row_lengths(np.int32([*itertools.chain(*each)]), lengths)
            for each in (rows, spans)
        )
        self._parts_of_words = _parts_of_words(keep_accents=settings.options["keep_accents"])
        self._trace(self._tokenize_batch, partial(self._tokenize_batch, with_offsets=True))

    def serialized(self, *, special_in_text: bool = False) -> dict[str, Any] | None:
        model = read_sentencepiece_model(self._settings.model)
        if model.trainer.kind > UNIGRAM or model.trainer.ends_with_blank:
            return None
        scores = {piece.text.decode(): piece.score for piece in model.pieces}
        special_in_text |= self._settings.options["special_tokens_in_text"]
        found = self._tokens_found(special_in_text=special_in_text)
        if special_in_text:  # as in transformers, where these are special tokens
            control = {piece.text.decode() for piece in model.pieces if piece.type == CONTROL}
            control |= {*self._settings.scheme.first_tokens}
            found = {
                self.token_to_id(token): AddedToken(token, special=True)
                for token in control
                if token in self._base_vocabulary
            } | found
        contents = {token.content for token in found.values()}
        # Other pieces, mainly special tokens, never match text unless they are cut out before.
        found_in_text = contents.union(
            piece.text.decode() for piece in model.pieces if piece.type in (0, NORMAL, USER)
        )
        scheme = "always" if model.before.begins_with_blank else "never"
        metaspace = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme}
        metaspace["split"] = False  # like the library, not into words
        return serialized(
            {
                "type": "Unigram",
                "unk_id": self.unk_id,
                "vocab": [
                    [token, scores.get(token, 0.0)]
                    if token in found_in_text
                    else [f" {token}", 0.0]
                    for token in self.base_vocabulary
                ],
                "byte_fallback": False,
            },
            {index: token.as_dict() for index, token in found.items()},
            normalizer=sequence(self._normalizers(model.before), "normalizers"),
            pre_tokenizer=metaspace
            if model.before.drops_blanks
            else {**metaspace, "prepend_scheme": "never"},
            decoder=metaspace,
        )

    def _tokens_found(self, *, special_in_text: bool) -> dict[int, AddedToken]:
        """Id -> token that texts are cut at, with or without special tokens."""
        roles = self._tokens_of_roles()
        return {
            index: token
            for index, token in self.added_tokens.items()
            if special_in_text or token.content not in roles
        }

    def _normalizers(self, model) -> list[dict[str, Any]]:
        """The steps of TextCleaner, then the model's rules and trimming (its `before`), for tokenizer.json."""
        options = self._settings.options
        theirs, no_accents = options["hugging_face_rules"], not options["keep_accents"]
        remove, compose = options["remove_space"], options["compose"]
        white_space = THEIR_WHITE_SPACE if theirs else WHITE_SPACE
        strip = {"type": "Strip", "strip_left": True, "strip_right": True}
        as_original = _replacing(COMBINING, "", "Regex")
        rules = {"precompiled_charsmap": base64.b64encode(model.rules).decode()}
        steps = [
            *((options["rewrite_quotes"], _replacing(quotes, '"')) for quotes in ("``", "''")),
            (remove, _replacing(white_space, " ", "Regex")),
            (remove, strip),
            (compose, _replacing(r"\s{2,}|[\n\r\t]", " ", "Regex")),
            (compose, {"type": "NFC"}),
            (compose, {**strip, "strip_left": False}),
            (no_accents, {"type": "NFKD"}),
            (no_accents, {"type": "StripAccents"} if theirs else as_original),
            (options["lowercase"], {"type": "Lowercase"}),
            *((True, _replacing(space, " ")) for space in self._spaces),
            (model.rules, {"type": "Precompiled", **rules}),
            (model.drops_blanks, _replacing(" {2,}", " ", "Regex")),
            # Only blanks, no other white space.
            (
                model.drops_blanks and not options["blank_at_end"],
                _replacing(BLANK_AT_END, "", "Regex"),
            ),
            # Metaspace puts no blank before one that is there.
            (
                model.begins_with_blank and not model.drops_blanks,
                {"type": "Prepend", "prepend": " "},
            ),
        ]
        return [step for wanted, step in steps if wanted]

    @property
    def _spaces(self) -> str:
        """The characters that become spaces."""
        scheme, theirs = self._settings.scheme, self._settings.options["hugging_face_rules"]
        return scheme.spaces + ("" if theirs else scheme.original_spaces)

    @property
    def split_tokens(self) -> dict[int, list[int]]:
        ids = {token: index for index, token in enumerate(self.vocabulary)}
        if has_tensorflow:
            rows = self._token_ids.to_list()
        else:
            rows, _ = self._tokens_of_pieces(self._encoded_by_library)
        pairs = zip(rows, self._settings.pieces, strict=True)
        return {ids.get(piece, self.unk_id): row for row, piece in pairs if len(row) > 1}

    def _tokens_of_pieces(self, encode: EncodeFunction) -> tuple[list[list[int]], list[list[Span]]]:
        """The token ids of each piece, mostly one, and their spans in it."""
        scheme, pieces = self._settings.scheme, self._settings.pieces
        ids = {token: index for index, token in enumerate(self._vocabulary.tokens)}
        rows = [[ids.get(piece, self.unk_id)] for piece in pieces]
        spans = [[(0, _TO_THE_END)]] * len(pieces)
        split = []
        if scheme.splits_number_commas and not self._settings.options["hugging_face_rules"]:
            comma_id = self._vocabulary.id_of(",", "comma")
            split = [i for i, p in enumerate(pieces) if p.endswith(",") and p[-2:-1].isdigit()]
        digits = [pieces[i][:-1].replace(SPACE, "") for i in split]
        for i, parts in zip(split, encode(digits) if digits else (), strict=True):
            if not (scheme.split_digits_begin_words or pieces[i].startswith(SPACE)):
                # The library puts a space before whatever it encodes.
                parts[0] = parts[0].removeprefix(SPACE)
                parts = [part for part in parts if part]
            rows[i] = [*(ids.get(part, self.unk_id) for part in parts), comma_id]
            widths = [len(part.replace(SPACE, "")) for part in parts]
            ends = list(itertools.accumulate([*widths, 1]))
            spans[i] = list(zip([0, *ends], ends, strict=False))
        return rows, spans

    def _encoded_by_sentencepiece(self, texts: list[str]) -> list[list[str]]:
        """The pieces of each text."""
        encoded = self._sentencepiece.tokenize(tf.constant(texts, tf.string)).to_list()
        return [[self._settings.pieces[piece] for piece in row] for row in encoded]

    def _encoded_by_library(self, texts: list[str]) -> list[list[str]]:
        """The same by Hugging Face's library, for use without TensorFlow."""
        encoded = rust_tokenizer(self.serialized()).encode_batch(texts, add_special_tokens=False)
        return [row.tokens for row in encoded]

    @property
    def rust_differences(self) -> tuple[str, ...]:
        found = [
            "The library normalises (nmt_nfkc) groups of characters that are read as one, so a rare "
            "character next to a combining mark may become another token.",
            "Runs of one letter or sign, whose segmentations are equally likely, may be split elsewhere.",
            "A token may cover a combining mark, a control character or a blank more or less.",
        ]
        options = self._settings.options
        if options["lowercase"] and not options["hugging_face_rules"]:
            found.append("A capital sigma at the end of a Greek word becomes σ instead of ς.")
        return tuple(found)

    @classmethod
    def from_file(
        cls, path: str | Path, scheme: Scheme, **options: bool | None
    ) -> SentencePieceTokenizer:
        """Makes a tokenizer from a model file, such as spiece.model.

        Args:
            path: the file.
            scheme, **options: as for the constructor.

        Raises:
            FileNotFoundError: no such file.
            ValueError, TypeError, ImportError: as for the constructor.
        """
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(
                f"There is no file {path}. Pass the SentencePiece model that was released with the "
                "checkpoint (spiece.model for ALBERT, sentencepiece.bpe.model for XLM-RoBERTa)."
            )
        try:
            return cls(read_whole(path), scheme, **options)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def _tokenize_batch(self, texts: tf.Tensor, with_offsets: bool = False) -> tf.RaggedTensor:
        plain = self._tokenize_plain
        return self._added.tokenize(texts, plain, plain, with_offsets=with_offsets)

    def _tokenize_plain(self, texts: tf.Tensor, with_offsets: bool) -> tf.RaggedTensor:
        cleaned = self._cleaner(texts)
        tokens = self._tokenize_cleaned(cleaned, texts, with_offsets)
        if self._blank_at_end is None:
            return tokens
        number = tf.cast(tf.strings.regex_full_match(cleaned, self._blank_at_end), tf.int64)
        blanks = tf.fill([tf.reduce_sum(number)], self._blank_id)
        if with_offsets:
            ends = tf.repeat(tf.strings.length(as_utf8(texts), unit="UTF8_CHAR"), number)
            blanks = token_columns(blanks, ends - 1, ends)
        blanks = tf.RaggedTensor.from_row_lengths(blanks, number, validate=False)
        return tf.concat([tokens, blanks], axis=1)

    def _tokenize_cleaned(
        self, cleaned: tf.Tensor, texts: tf.Tensor, with_offsets: bool
    ) -> tf.RaggedTensor:
        """Tokenizes what the cleaner made of texts, without a blank at the end."""
        if with_offsets:
            pieces, *piece_bytes = self._sentencepiece.tokenize_with_offsets(cleaned)
        else:
            pieces = self._sentencepiece.tokenize(cleaned)
        ids = tf.gather(self._token_ids, pieces.values)
        tokens = joined_rows(ids, pieces)
        if not with_offsets:
            return tokens
        first_bytes, end_bytes = (tf.cast(place.values, tf.int32) for place in piece_bytes)
        characters = tf.strings.unicode_decode(cleaned, "UTF-8")
        codes = characters.values
        row = pieces.value_rowids()
        # From bytes to characters; the last position is the end of all texts.
        byte_splits = tf.concat([[0], tf.cumsum(utf8_lengths(codes))], 0)
        row_bytes = tf.gather(byte_splits, tf.gather(characters.row_splits, row))
        places = tf.concat([characters_of_bytes(codes), [tf.size(codes)]], 0)
        first = tf.gather(places, row_bytes + first_bytes)
        end = tf.gather(places, row_bytes + end_bytes)

        # Then to characters of words, without the blanks that pieces begin with. A piece of only a blank
        # covers the character after it, as in the reference.
        is_word = self._is_part_of_word(characters)
        words_before = tf.concat([[0], tf.cumsum(tf.cast(is_word, tf.int32))], 0)
        end_of_row = tf.gather(words_before, tf.gather(characters.row_splits, row + 1))
        first, end = tf.gather(words_before, first), tf.gather(words_before, end)
        first = tf.minimum(first, end_of_row - 1)
        end = tf.maximum(end, first + 1)

        # From pieces to tokens, and back to the original text.
        spans = tf.gather(self._token_spans, pieces.values).values
        piece = ids.value_rowids()
        first, end = tf.gather(first, piece), tf.gather(end, piece)
        start = tf.minimum(first + spans[:, 0], end - 1)
        last = tf.maximum(tf.minimum(first + spans[:, 1], end) - 1, start)
        word_origins = tf.boolean_mask(self._cleaner.origins(texts).values, is_word)
        starts, ends = tf.gather(word_origins, start), tf.gather(word_origins, last) + 1
        return tokens.with_values(token_columns(ids.values, starts, ends))

    def _is_part_of_word(self, characters: tf.RaggedTensor) -> tf.Tensor:
        """Returns which characters of prepared texts [batch, (n)] tokens cover, bool [all]."""
        is_part = tf.gather(self._parts_of_words, characters.values)
        row = characters.value_rowids()
        parts = tf.math.unsorted_segment_sum(tf.cast(is_part, tf.int32), row, characters.nrows())
        # With other rules, a text of only blanks has tokens too.
        return is_part | tf.gather(parts == 0, row)

    def _begins_word(self, token: str) -> bool:
        return re.fullmatch(self._settings.scheme.begins_word, token, re.DOTALL) is not None

    def _spelling(self, token: str) -> str:
        # Special tokens are separate words.
        return SPACE + token if token in self._settings.special else token

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments without the model, ready for JSON."""
        added = self._options.added_tokens
        return {
            "scheme": self._settings.scheme.name,
            **self._settings.options,
            **({"added_tokens": copy.deepcopy(added)} if added else {}),
        }

    def _files(self) -> dict[str, Any]:
        scheme, options = self._settings.scheme, dict(self._settings.options)
        lowercase = options.pop("lowercase")
        config = self._config(scheme.tokenizer_class, do_lower_case=lowercase, **options)
        if "eos_token" in scheme.special_tokens:
            config["eos_token"] = scheme.special_tokens["eos_token"]
        if self._options.added_tokens:
            config["added_tokens_decoder"] = self._tokens_in_text()
        return {scheme.model_file: self._settings.model, "tokenizer_config.json": config}


def _replacing(pattern: str, content: str, kind: str = "String") -> dict[str, Any]:
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


def _load(model: bytes) -> Any:
    """Returns tensorflow_text's tokenizer for a model, which becomes part of the graph."""
    tensorflow_text = import_tensorflow_text()
    # In a loaded SavedModel the library finds the model by its name, so two models of one name in one
    # process would be mixed up (tensorflow_text 2.21).
    name = f"sentencepiece_{hashlib.sha256(model).hexdigest()[:32]}"
    errors = tf.errors
    with _model_errors(model, errors.InternalError, errors.InvalidArgumentError):
        tokenizer = tensorflow_text.SentencepieceTokenizer(model, out_type=tf.int32, name=name)
        tokenizer._model_resource = lasting_sentencepiece(tokenizer._model_resource)
        return tokenizer


def _checked_pieces(model: bytes) -> list[str]:
    with _model_errors(model):
        return [piece.text.decode() for piece in checked_sentencepiece_model(model).pieces]


@contextlib.contextmanager
def _model_errors(model: bytes, *kinds: type[Exception]) -> Iterator[None]:
    """Turns errors, including the library's `kinds`, into errors that explain what is wrong with a model."""
    try:
        yield
    except (ValueError, *kinds) as error:
        reason = shortened(str(getattr(error, "message", error)).strip())
        raise ValueError(
            f"These {len(model)} bytes are not a SentencePiece model: {reason} Fetch the file again. A "
            "few hundred bytes are often a Git LFS pointer or an error page. A vocab.txt belongs to a "
            "WordPiece tokenizer."
        ) from error


def _parts_of_words(*, keep_accents: bool) -> tf.Tensor:
    """Which code points tokens cover, bool [n]: all but blanks and removed accents, which the reference drops first."""
    is_part = np.ones(0x110000, bool)
    is_part[parse_ranges(_BLANKS)] = False
    if not keep_accents:
        is_part[code_points("python/starter_marks")] = False
    return tf.constant(is_part)
