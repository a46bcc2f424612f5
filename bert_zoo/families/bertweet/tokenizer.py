"""BPE of tweets in the graph, with the ids of transformers' BertweetTokenizer.

Words are merged as in `bert_zoo.text.bpe`. The vocabulary marks tokens that do not end a word, by a
final "@@".
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

# The end of tokens that do not end a word.
CONTINUED = "@@"


class TweetBpeTokenizer(MergesWords):
    """BERTweet's tokenizer: normalises tweets, then merges the characters of words to tokens.

    Ids equal those of transformers' BertweetTokenizer with the same `normalization` (see
    `bert_zoo.families.bertweet.tweets`). Special and added tokens inside a text become their own ids, as
    they do there. There are no offsets. `word_starts` is true for every token, as tokens mark only where
    a word goes on.

    Args:
        vocabulary: tokens in the order of their ids; those that do not end a word end with "@@". The first
            are those of fairseq: `<s>`, `<pad>`, `</s>`, `<unk>`.
        merges: pairs of tokens, first merges first; the last part of a word ends with `</w>`. Their
            results need not be in the vocabulary.
        normalization: normalise texts with `TweetNormalizer`. If False, texts are normalised already, and
            white space separates words.
        unknown_token, padding_token, cls_token, sep_token, mask_token: names of the special tokens.
        added_tokens: tokens that are kept whole, besides the special tokens; see `AddedToken`.

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
                f"The vocabulary begins with {', '.join(first)}. It must begin with BERTweet's first "
                f"tokens, {', '.join(FIRST_TOKENS)}."
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
        # Both files have a column of counts, which nothing uses but readers expect.
        return {
            "vocab.txt": "".join(f"{word} 1\n" for word in words),
            "bpe.codes": "".join(f"{left} {right} 1\n" for left, right in self.merges),
            "tokenizer_config.json": {
                **self._config("BertweetTokenizer", normalization=self._options.normalization),
                "added_tokens_decoder": self._tokens_in_text(),
            },
        }


def _with_line_ends(texts: tf.Tensor) -> tf.Tensor:
    """Appends each line end to the word before it, as transformers does with normalised texts."""
    return replaced(texts, [(f"([^{re2_class('python/whitespace')}])\n", rf"\1{UNKNOWN} ")])
