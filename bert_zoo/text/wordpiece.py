"""WordPiece in the graph, with the ids of Hugging Face's fast BERT tokenizer on every input."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from bert_zoo.error_text import shortened
from bert_zoo.graph import tf
from bert_zoo.text.batches import characters_of_bytes, joined_rows, token_columns, utf8_lengths
from bert_zoo.text.files import SUFFIX, AddedToken, Vocabulary, special_tokens
from bert_zoo.text.format import bert_normalizer, serialized
from bert_zoo.text.normalizer import BertNormalizer, Rules, split_words
from bert_zoo.text.token_finder import MOST_IN_A_PATTERN, AddedTokens
from bert_zoo.text.tokenizer import Marks, TokenizeFunction, Tokenizer, import_tensorflow_text

# A word that no vocabulary has: normalisation removes control characters.
_UNKNOWN_WORD = "\x00"


class WordPieceTokenizer(Tokenizer):
    """BERT's tokenizer: cleans, lower-cases and splits texts into words, then finds the longest pieces.

    Ids and offsets equal those of the tokenizers library's BertNormalizer, BertPreTokenizer and WordPiece
    on every text. Special and added tokens inside a text become their own ids, as they do there.
    Bytes that are not UTF-8 count as U+FFFD, which BERT drops. A word of more than
    `max_word_length` characters, or one that the vocabulary cannot spell, is one unknown token.

    Args:
        vocabulary: tokens in the order of their ids; continuation pieces begin with "##".
        lowercase: lower-case the text (for an "uncased" vocabulary).
        strip_accents: remove accents; None for the value of `lowercase`.
        split_cjk: make every Chinese character a word.
        max_word_length: longest word, in characters, that is looked up: 100 as in Hugging Face's;
            Google's original has 200.
        unknown_token, padding_token, cls_token, sep_token, mask_token: names of the special tokens.
        added_tokens: tokens that are kept whole, besides the special tokens; see `AddedToken`.

    Raises:
        ValueError: an empty vocabulary, duplicates in it, a special token that it lacks, an added
            token that normalisation empties, or a `max_word_length` below 1.
        ImportError: tensorflow_text is missing or broken.

    Source: Devlin et al. 2019, google-research/bert tokenization.py; huggingface/tokenizers.
    """

    marks = Marks(inside=SUFFIX)
    # Case, accents and spacing around punctuation are lost in normalisation.
    separator, joints = " ", ((f" {SUFFIX}", ""),)

    def __init__(
        self,
        vocabulary: Sequence[str],
        *,
        lowercase: bool = True,
        strip_accents: bool | None = None,
        split_cjk: bool = True,
        max_word_length: int = 100,
        unknown_token: str = "[UNK]",
        padding_token: str = "[PAD]",
        cls_token: str = "[CLS]",
        sep_token: str = "[SEP]",
        mask_token: str = "[MASK]",
        added_tokens: Iterable[AddedToken | str | Mapping[str, Any]] = (),
    ):
        if max_word_length < 1:
            raise ValueError(
                f"max_word_length is {max_word_length}; it must be at least 1. BERT's own value is 100."
            )
        named = special_tokens(unknown_token, padding_token, cls_token, sep_token, mask_token)
        super().__init__(
            Vocabulary(vocabulary),
            lowercase=bool(lowercase),
            strip_accents=None if strip_accents is None else bool(strip_accents),
            split_cjk=bool(split_cjk),
            max_word_length=int(max_word_length),
            **named,
            added_tokens=added_tokens,
        )
        self._build_graph()

    def _build(self) -> None:
        options = self._options
        lowercase, strip_accents = options.lowercase, options.strip_accents
        self._normalizer = BertNormalizer(
            lowercase=lowercase,
            strip_accents=lowercase if strip_accents is None else strip_accents,
            split_cjk=options.split_cjk,
        )
        self._added = AddedTokens(self.added_tokens, self._normalizer)
        most, unknown = options.max_word_length, options.unknown_token
        # A character has at most four bytes. The exact limit in characters is applied before.
        self._match_words = _fast_wordpiece(self.base_vocabulary, unknown, 4 * most, split=False)
        self._match_ascii = _fast_wordpiece(self.base_vocabulary, unknown, most, split=True)
        self._plain_pattern, self._other_pattern = _patterns_of_plain_texts(
            self._added.spellings, lowercase=lowercase
        )
        self._trace(self._tokenize_batch, partial(self._tokenize_batch, with_offsets=True))

    def serialized(self, *, special_in_text: bool = False) -> dict[str, Any]:
        options = self._options
        model = {
            "type": "WordPiece",
            "unk_token": options.unknown_token,
            "continuing_subword_prefix": SUFFIX,
            "max_input_chars_per_word": options.max_word_length,
            "vocab": self._base_vocabulary.ids,
        }
        return serialized(
            model,
            self._tokens_in_text(),
            normalizer=bert_normalizer(
                lowercase=options.lowercase,
                strip_accents=options.strip_accents,
                split_cjk=options.split_cjk,
            ),
            pre_tokenizer={"type": "BertPreTokenizer"},
            decoder={"type": "WordPiece", "prefix": SUFFIX, "cleanup": True},
        )

    def _tokenize_batch(self, texts: tf.Tensor, with_offsets: bool = False) -> tf.RaggedTensor:
        """Tokenizes texts of printable ASCII by tensorflow_text's one-step kernel, which is faster and agrees with BERT
        on these. Other texts go through `split_words`.
        """
        of_ascii = partial(self._tokenize_ascii, with_offsets=with_offsets)
        of_unicode = partial(
            self._added.tokenize,
            tokenize=partial(self._tokenize_words, rules=self._normalizer.rules),
            tokenize_normalized=partial(
                self._tokenize_words, rules=self._normalizer.rules_of_normalized
            ),
            with_offsets=with_offsets,
        )
        plain = tf.strings.regex_full_match(texts, self._plain_pattern)
        if self._other_pattern is not None:
            plain &= ~tf.strings.regex_full_match(texts, self._other_pattern)
        return tf.cond(
            tf.reduce_all(plain),
            lambda: of_ascii(texts),
            lambda: _tokenize_mixed(texts, plain, of_ascii, of_unicode),
        )

    def _tokenize_ascii(self, texts: tf.Tensor, with_offsets: bool) -> tf.RaggedTensor:
        # A character is one byte, before and after lower-casing.
        texts = tf.strings.lower(texts) if self._options.lowercase else texts
        ids, starts, ends = self._match_ascii.tokenize_with_offsets(texts)
        if not with_offsets:
            return ids
        return ids.with_values(token_columns(ids.values, starts.values, ends.values))

    def _tokenize_words(
        self, texts: tf.Tensor, rules: Rules, with_offsets: bool
    ) -> tf.RaggedTensor:
        words, *origins = split_words(texts, rules, with_origins=with_offsets)
        pieces, first_bytes, _ = self._match_words.tokenize_with_offsets(
            self._spelled(words.values)
        )
        tokens = joined_rows(pieces, words)
        if not with_offsets:
            return tokens
        # The pieces of a word cover it: each ends where the next one begins.
        codes = words.flat_values
        byte_splits = tf.concat([[0], tf.cumsum(utf8_lengths(codes))], 0)
        word = tf.gather(words.values.row_splits, pieces.value_rowids())
        places_of_bytes = tf.gather(byte_splits, word) + tf.cast(first_bytes.values, tf.int32)
        first_chars = tf.gather(characters_of_bytes(codes), places_of_bytes)
        last_chars = tf.concat([first_chars, [tf.size(codes)]], 0)[1:] - 1
        (places,) = (origin.flat_values for origin in origins)
        starts, ends = tf.gather(places, first_chars), tf.gather(places, last_chars) + 1
        return tokens.with_values(token_columns(pieces.values, starts, ends))

    def _spelled(self, words: tf.RaggedTensor) -> tf.Tensor:
        """Returns words, code points [words, (characters)], as strings; overlong ones are unknown."""
        spelled = tf.strings.unicode_encode(words, "UTF-8")
        too_long = words.row_lengths() > self._options.max_word_length
        return tf.cond(
            tf.reduce_any(too_long),
            lambda: tf.where(too_long, _UNKNOWN_WORD, spelled),
            lambda: spelled,
        )

    def _begins_word(self, token: str) -> bool:
        return not token.startswith(SUFFIX)

    def _files(self) -> dict[str, Any]:
        options = self._options
        config = self._config(
            "BertTokenizer",
            do_lower_case=options.lowercase,
            strip_accents=options.strip_accents,
            tokenize_chinese_chars=options.split_cjk,
            max_input_chars_per_word=options.max_word_length,
        )
        if options.added_tokens:
            config["added_tokens_decoder"] = self._tokens_in_text()
        lines = "".join(f"{token}\n" for token in self.base_vocabulary)
        return {"vocab.txt": lines, "tokenizer_config.json": config}


def _tokenize_mixed(
    texts: tf.Tensor, plain: tf.Tensor, of_plain: TokenizeFunction, of_others: TokenizeFunction
) -> tf.RaggedTensor:
    """Tokenizes plain rows and other rows by their own functions, and restores the order."""
    plain_rows = of_plain(tf.boolean_mask(texts, plain))
    other_rows = of_others(tf.boolean_mask(texts, ~plain))
    rank_among_plain = tf.cumsum(tf.cast(plain, tf.int64), exclusive=True)
    rank_among_others = tf.cumsum(tf.cast(~plain, tf.int64), exclusive=True)
    order = tf.where(plain, rank_among_plain, plain_rows.nrows() + rank_among_others)
    return tf.gather(tf.concat([plain_rows, other_rows], axis=0), order)


def _patterns_of_plain_texts(
    spellings: Iterable[tuple[str, AddedToken]], *, lowercase: bool
) -> tuple[str, str | None]:
    """A pattern for texts of printable ASCII and white space, and one for texts with an added token. A text is plain if
    the first matches and the second, if there is one, does not. The first also excludes the first characters of
    special tokens that begin with a sign.
    """
    spelled = [(spelling, token) for spelling, token in spellings if spelling.isascii()]
    words = [text for text, token in spelled if text[0].isalnum() or not token.special]
    if len(words) > MOST_IN_A_PATTERN:
        words = []
    first = {text[0] for text, _ in spelled if text not in words}
    excluded = {case for char in first for case in (char.lower(), char.upper())}
    plain = [chr(c) for c in (9, 10, 13, *range(32, 127)) if chr(c) not in excluded]
    # In normalised texts all white space is blanks.
    words = [re.sub(r"\\?\s", r"\\s", re.escape(word)) for word in words]
    letters = "(?i)" if lowercase else ""
    some = rf"{letters}\C*?(?:{'|'.join(words)})\C*" if words else None
    return f"[{re.escape(''.join(plain))}]*", some


def _fast_wordpiece(
    tokens: Sequence[str], unknown_token: str, max_bytes_per_word: int, *, split: bool
) -> Any:
    """Compiles tensorflow_text's linear-time WordPiece, which also splits texts into words if `split`."""
    tensorflow_text = import_tensorflow_text()
    builder = importlib.import_module(
        "tensorflow_text.core.pybinds.pywrap_fast_wordpiece_tokenizer_model_builder"
    )
    try:
        model = builder.build_fast_wordpiece_model(
            list(tokens), max_bytes_per_word, SUFFIX, unknown_token, not split, False
        )
    except RuntimeError as error:
        raise ValueError(
            f"tensorflow_text cannot compile this vocabulary of {len(tokens)} tokens: "
            f"{shortened(str(error))} Its tokens must be words, or continuation pieces that begin with '##'."
        ) from error
    # The constructor turns a bytes buffer into a list of Python integers, which takes seconds for a large
    # vocabulary. It takes a tensor as it is.
    return tensorflow_text.FastWordpieceTokenizer(
        model_buffer=tf.constant(np.frombuffer(model, np.uint8)), token_out_type=tf.int32
    )
