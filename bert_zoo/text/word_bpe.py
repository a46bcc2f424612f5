"""BPE of words in the graph, with the ids of transformers' XLMTokenizer.

Words come from Moses (`bert_zoo.text.moses`). Each begins as its characters, the last one with "</w>" behind
it; then, of its neighbouring pairs, the one that comes first in the list of merges is joined wherever it
stands, until no pair is in the list.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
import tensorflow as tf

from bert_zoo.error_text import shown
from bert_zoo.text.added_tokens import AddedToken
from bert_zoo.text.batches import as_utf8, split_at_white_space
from bert_zoo.text.byte_bpe_graph import Merger
from bert_zoo.text.moses import MosesWords
from bert_zoo.text.offsets import (
    joined_rows,
    lookup_table,
    spans_of_characters,
    token_columns,
)
from bert_zoo.text.token_finder import token_finder
from bert_zoo.text.tokenizer import Tokenizer
from bert_zoo.text.vocabulary import HF_SPECIAL_TOKENS, Vocabulary, special_tokens

WORD_END = "</w>"
# Above every code point: marks a word's last one.
_LAST = 1 << 21


class MergedWords(Tokenizer):
    """What tokenizers share that find words and merge their characters; subclasses call `_prepare`."""

    def _prepare(
        self,
        find_words: Callable[[tf.Tensor], tf.RaggedTensor],
        merges: Sequence[tuple[str, str]],
        ids: Mapping[str, int],
        with_spans: Callable[[tf.Tensor], tuple[tf.RaggedTensor, tf.Tensor]] | None = None,
    ) -> None:
        """Makes what tokenizes.

        Args:
            find_words: from texts in UTF-8 [batch] to string [batch, (words)].
            merges: pairs of tokens, first merges first.
            ids: of tokens as merges make them; see `WordMerger`.
            with_spans: finds the words too and, for each of their characters, where in its text that begins
                and ends, int32 [characters, 2]; None for a tokenizer without offsets.
        """
        # As transformers counts them: of a pair that comes twice, the last place.
        places = {tuple(pair): place for place, pair in enumerate(merges)}
        # In a plain object, so that tf.Module does not track each of them.
        self._merges = SimpleNamespace(pairs=tuple(sorted(places, key=places.__getitem__)))
        with tf.init_scope(), tf.device("CPU:0"):
            # transformers' tokenizers of these families, in Python, look for all tokens in raw texts.
            found = {token.content: (index, token) for index, token in self.added_tokens.items()}
            self._finder = token_finder(found, words_between_blanks=True)
            self._find_words, self._find_words_with_spans = find_words, with_spans
            self._merger = WordMerger(ids, self.merges, self.unk_id)
        with_offsets = partial(self._tokenize_batch, with_offsets=True)
        self._trace(self._tokenize_batch, with_offsets if with_spans else None)

    @property
    def merges(self) -> tuple[tuple[str, str], ...]:
        """Every merge, in its order."""
        return self._merges.pairs

    def _tokenize_batch(self, texts: tf.Tensor, *, with_offsets: bool = False) -> tf.RaggedTensor:
        tokenize = self._tokenize_with_offsets if with_offsets else self._tokenize_plain
        around = self._finder.tokenize_around
        return around(as_utf8(texts), tokenize, with_offsets=with_offsets)

    def _tokenize_plain(self, texts: tf.Tensor) -> tf.RaggedTensor:
        words = self._find_words(texts)
        return joined_rows(self._merger(words.values), words)

    def _tokenize_with_offsets(self, texts: tf.Tensor) -> tf.RaggedTensor:
        words, spans = self._find_words_with_spans(texts)
        return joined_rows(self._merger.with_offsets(words.values, spans), words)


class WordBpeTokenizer(MergedWords):
    """XLM's tokenizer: Moses' words, then merges of characters to tokens.

    Ids equal those of transformers' XLMTokenizer with the same `lang`; see `bert_zoo.text.moses`. Special
    and added tokens inside a text become their own ids, as they do there. Offsets are of the text before any
    of that; a token's are those of all characters that one of its own takes the place of.

    Args:
        vocabulary: tokens in the order of their ids; those that end a word end with "</w>".
        merges: pairs of tokens, first merges first. What they make need not be in the vocabulary.
        language: of the texts, as "en".
        languages: name -> number of each language that the model was trained on; None where there is none
            to tell.
        lowercase: lower-case, and remove accents.
        pretokenized: whether the words of texts are found already, and stand between white space:
            nothing is normalised or lower-cased then (transformers' `bypass_tokenizer`).
        unknown_token, padding_token, cls_token, sep_token, mask_token: the special tokens' names.
        added_tokens: what texts are cut at beside the special tokens; see `Tokenizer`.

    Attributes:
        language_id: the language's number; None where `languages` is.

    Raises:
        ValueError: duplicates in the vocabulary, a special token that it lacks, a language that the model
            was not trained on, or whose words another library finds.

    Source: Sennrich et al. 2016 (arXiv:1508.07909); huggingface/transformers tokenization_xlm.py.
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        merges: Sequence[tuple[str, str]],
        *,
        language: str = "en",
        languages: Mapping[str, int] | None = None,
        lowercase: bool = True,
        pretokenized: bool = False,
        unknown_token: str = "<unk>",
        padding_token: str = "<pad>",
        cls_token: str = "</s>",
        sep_token: str = "</s>",
        mask_token: str = "<special1>",
        added_tokens: Iterable[AddedToken | str | Mapping[str, Any]] = (),
    ):
        named = special_tokens(unknown_token, padding_token, cls_token, sep_token, mask_token)
        super().__init__(
            Vocabulary(vocabulary),
            language=language,
            languages=None if languages is None else dict(languages),
            lowercase=bool(lowercase),
            pretokenized=bool(pretokenized),
            **named,
            added_tokens=added_tokens,
        )
        if languages is not None and language not in languages:
            raise ValueError(
                f"language is {shown(language)}; the model was trained on {', '.join(languages)}."
            )
        self.language_id = None if languages is None else languages[language]
        with tf.init_scope(), tf.device("CPU:0"):
            if pretokenized:
                words, with_spans = split_at_white_space, _split_with_spans
            else:
                words = MosesWords(language, lowercase=lowercase)
                with_spans = words.with_spans
            self._spellings = tf.constant(
                [token.replace(WORD_END, " ") for token in self.vocabulary]
            )
        ids = {token: index for index, token in enumerate(self.base_vocabulary)}
        self._prepare(words, merges, ids, with_spans)

    def in_language(self, language: str) -> Self:
        """The tokenizer of texts in another language, with the same vocabulary."""
        return self.with_options(language=language)

    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        joined = tf.strings.reduce_join(tf.gather(self._spellings, ids), axis=1)
        return tf.strings.strip(joined)

    def _files(self) -> dict[str, Any]:
        options = self._options
        special = {theirs: getattr(options, ours) for ours, theirs in HF_SPECIAL_TOKENS.items()}
        config = {
            "tokenizer_class": "XLMTokenizer",
            "do_lowercase_and_remove_accent": options.lowercase,
            "language": options.language,
            "pretokenized": options.pretokenized,
            **special,
            # Whatever its documentation says, it is this one that transformers puts before a text.
            "bos_token": options.cls_token,
            "added_tokens_decoder": self._tokens_in_text(),
        }
        if options.languages is not None:
            config["lang2id"] = options.languages
            config["id2lang"] = {str(number): name for name, number in options.languages.items()}
        return {
            "vocab.json": json.dumps(self._base_vocabulary.ids, ensure_ascii=False) + "\n",
            "merges.txt": "".join(f"{left} {right}\n" for left, right in self.merges),
            "tokenizer_config.json": config,
        }


def _split_with_spans(texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
    return split_at_white_space(texts), spans_of_characters(texts)


class WordMerger(Merger):
    """Joins the characters of words to tokens of a vocabulary.

    Merges may make what is no token and be joined on to one; what stays so becomes the unknown token, as
    every character does that no merge and no token has.

    Args:
        tokens: as merges make them, those that end a word with "</w>" behind them -> id.
        merges: pairs of tokens, first merges first.
        unknown_id: the unknown token's.
    """

    def __init__(
        self, tokens: Mapping[str, int], merges: Sequence[tuple[str, str]], unknown_id: int
    ):
        tf.Module.__init__(self)
        parts = (part for left, right in merges for part in (left, right, left + right))
        ids = {symbol: index for index, symbol in enumerate(dict.fromkeys([*tokens, *parts]))}
        # The last one stands for characters without a symbol.
        self._token_ids = tf.constant([*(tokens.get(s, unknown_id) for s in ids), unknown_id])
        self._lengths = tf.constant([*(len(s.removesuffix(WORD_END)) for s in ids), 1])
        ids[""] = len(ids)
        self._prepare(merges, ids)
        if not _makes_before_use(merges):
            # No merge is safe then: each word makes its merges one by one.
            self._left_bound = self._right_bound = tf.fill(tf.shape(self._left_bound), -1)
        chars = {}
        for symbol, index in ids.items():
            bare = symbol.removesuffix(WORD_END)
            if len(bare) == 1:
                chars[ord(bare) + (_LAST if bare != symbol else 0)] = index
        self._first = lookup_table(
            np.array([*chars], np.int64), np.array([*chars.values()], np.int32), default=ids[""]
        )
        self._look_up_whole(
            [t.removesuffix(WORD_END) for t in tokens if t.endswith(WORD_END) and t != WORD_END]
        )

    def _first_ids(self, pieces: tf.Tensor) -> tf.Tensor:
        codes = tf.strings.unicode_decode(pieces, "UTF-8")
        is_last = tf.scatter_nd(
            codes.row_splits[1:, None] - 1,
            tf.ones_like(pieces, tf.int32),
            tf.shape(codes.values, tf.int64),
        )
        chars = tf.cast(codes.values + is_last * _LAST, tf.int64)
        ids = codes.with_values(self._first.lookup(chars))
        ends = tf.fill([tf.size(pieces), 1], self._end)
        return tf.concat(
            [ids, tf.RaggedTensor.from_tensor(ends, row_splits_dtype=tf.int64)], 1
        ).values

    def __call__(self, pieces: tf.Tensor) -> tf.RaggedTensor:
        """The ids int32 [words, (tokens)] of words, string [words]."""
        symbols = super().__call__(pieces)
        return symbols.with_values(tf.gather(self._token_ids, symbols.values))

    def with_offsets(self, pieces: tf.Tensor, spans: tf.Tensor) -> tf.RaggedTensor:
        """Ids, starts and ends int32 [words, (tokens), 3]; spans, int32 [characters, 2], are of all words'."""
        symbols = super().__call__(pieces)
        ids, lengths = (
            tf.gather(column, symbols.values) for column in (self._token_ids, self._lengths)
        )
        behind = tf.cumsum(lengths)
        starts, ends = tf.gather(spans[:, 0], behind - lengths), tf.gather(spans[:, 1], behind - 1)
        return symbols.with_values(token_columns(ids, starts, ends))


def _makes_before_use(merges: Sequence[tuple[str, str]]) -> bool:
    """Whether all merges that make a symbol come before all that use it."""
    first_used: dict[str, int] = {}
    for number, pair in enumerate(merges):
        for part in pair:
            first_used.setdefault(part, number)
    return all(
        first_used.get(left + right, number) >= number
        for number, (left, right) in enumerate(merges)
    )
