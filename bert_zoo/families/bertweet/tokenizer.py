"""BPE of tweets in the graph, with the ids of transformers' BertweetTokenizer.

Words are merged as `bert_zoo.text.bpe` says; in the vocabulary it is tokens that do not end a word which
are marked, by "@@" after them.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bert_zoo.families.bertweet import FIRST_TOKENS
from bert_zoo.families.bertweet.tweets import UNKNOWN, TweetNormalizer
from bert_zoo.graph import tf
from bert_zoo.text.added_tokens import AddedToken
from bert_zoo.text.batches import replaced, split_at_white_space
from bert_zoo.text.bpe import WORD_END, Merges, MergesWords, at_last_places
from bert_zoo.text.token_finder import AddedTokens
from bert_zoo.text.tokenizer import Marks
from bert_zoo.text.unicode_tables import re2_class
from bert_zoo.text.vocabulary import Vocabulary, special_tokens

# What tokens that do not end a word end with.
CONTINUED = "@@"


class TweetBpeTokenizer(MergesWords):
    """BERTweet's tokenizer: normalised tweets, then merges of characters to tokens.

    Ids equal those of transformers' BertweetTokenizer with the same `normalization`; see
    `bert_zoo.families.bertweet.tweets`. Special and added tokens inside a text become their own ids, as they do there. It
    does not tell where in a text its tokens come from, and `word_starts` is true of every token: it is the
    end of a word that a token tells.

    Args:
        vocabulary: tokens in the order of their ids; those that do not end a word end with "@@".
        merges: pairs of tokens, first merges first; the last part of a word ends with "</w>". What they
            make need not be in the vocabulary.
        normalization: whether texts are tweets as they were written; otherwise they are normalised already,
            and words are what stands between white space.
        unknown_token, padding_token, cls_token, sep_token, mask_token: the special tokens' names.
        added_tokens: what texts are cut at beside the special tokens; see `Tokenizer`.

    Raises:
        ValueError: duplicates in the vocabulary, other first tokens than fairseq's, or a special token that
            it lacks.

    Source: Nguyen et al. 2020 (arXiv:2005.10200); huggingface/transformers tokenization_bertweet.py.
    """

    marks = Marks(unfinished=CONTINUED)

    def __init__(
        self,
        vocabulary: Sequence[str],
        merges: Merges,
        *,
        normalization: bool = True,
        unknown_token: str = "<unk>",
        padding_token: str = "<pad>",
        cls_token: str = "<s>",
        sep_token: str = "</s>",
        mask_token: str = "<mask>",
        added_tokens: Iterable[AddedToken | str | Mapping[str, Any]] = (),
    ):
        named = special_tokens(unknown_token, padding_token, cls_token, sep_token, mask_token)
        super().__init__(
            Vocabulary(vocabulary),
            at_last_places(merges),
            normalization=bool(normalization),
            **named,
            added_tokens=added_tokens,
        )
        if (first := self.vocabulary[: len(FIRST_TOKENS)]) != FIRST_TOKENS:
            raise ValueError(
                f"The vocabulary begins with {', '.join(first)}; BERTweet's first tokens are "
                f"{', '.join(FIRST_TOKENS)}."
            )
        self._build_graph()

    def _build(self) -> None:
        ids = {token + WORD_END: index for index, token in enumerate(self.base_vocabulary)}
        for index, token in enumerate(self.base_vocabulary):
            if token.endswith(CONTINUED) and token != CONTINUED:
                ids[token.removesuffix(CONTINUED)] = index
        self._normalize = TweetNormalizer() if self._options.normalization else _with_line_ends
        self._spellings = tf.constant(self.vocabulary)
        self._prepare(self._find, ids, AddedTokens(self.added_tokens, in_raw_texts=True))

    def _find(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return split_at_white_space(self._normalize(texts))

    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        joined = tf.strings.reduce_join(tf.gather(self._spellings, ids), axis=1, separator=" ")
        return tf.strings.strip(tf.strings.regex_replace(joined, f"{CONTINUED} ", ""))

    def _joined(self, tokens: list[str]) -> str:
        return " ".join(tokens).replace(f"{CONTINUED} ", "").strip(string.whitespace)

    def _files(self) -> dict[str, Any]:
        added = {token.content for token in self.added_tokens.values()}
        words = [*self.base_vocabulary[len(FIRST_TOKENS) :]]
        while words and words[-1] in added:
            words.pop()
        # Both files count how often each occurred, which nothing reads; without it they are misread.
        return {
            "vocab.txt": "".join(f"{word} 1\n" for word in words),
            "bpe.codes": "".join(f"{left} {right} 1\n" for left, right in self.merges),
            "tokenizer_config.json": {
                **self._config("BertweetTokenizer", normalization=self._options.normalization),
                "added_tokens_decoder": self._tokens_in_text(),
            },
        }


def _with_line_ends(texts: tf.Tensor) -> tf.Tensor:
    """Normalised texts whose line ends are a character of the word before them, as they are to transformers."""
    return replaced(texts, [(f"([^{re2_class('python/whitespace')}])\n", rf"\1{UNKNOWN} ")])
