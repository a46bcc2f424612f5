"""BPE over the characters of words, with the ids of Hugging Face's fast GPT tokenizer on every input.

A text becomes words as BERT's does; each begins as its characters, the last of which bears the suffix
"</w>", and is merged as `bert_zoo.text.byte_bpe` says.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import tensorflow as tf

from bert_zoo.text.added_tokens import AddedToken
from bert_zoo.text.byte_bpe import checked_merges
from bert_zoo.text.byte_bpe_graph import Merges
from bert_zoo.text.normalizer import (
    Rules,
    build_rules,
    normalized_text,
    rules_of_normalized,
    split_words,
    tokenize_normalized,
)
from bert_zoo.text.offsets import joined_rows
from bert_zoo.text.serialized import bert_normalizer, bpe_model, serialized
from bert_zoo.text.token_finder import around, token_finders
from bert_zoo.text.tokenizer import Tokenizer
from bert_zoo.text.vocabulary import Vocabulary
from bert_zoo.text.word_bpe import WORD_END, WordMerger


class CharBpeTokenizer(Tokenizer):
    """GPT's tokenizer: clean, lower-case, split into words as BERT's, then merge characters to tokens.

    Ids equal those of the tokenizers library's BertNormalizer, BertPreTokenizer and BPE on every text.
    (OpenAI's own program split words with ftfy and spaCy, which transformers has left, too.) Special and
    added tokens inside a text become their own ids. A character that the vocabulary lacks is one
    unknown token. There are no offsets, and `word_starts` is true of every token: it is the end of a word
    that a token tells.

    Args:
        vocabulary: tokens in the order of their ids; those that end a word end in "</w>".
        merges: pairs of tokens, first merges first.
        lowercase: lower-case the text, and remove accents.
        unknown_token: the unknown token's name.
        padding_token: that of padding, where there is one.
        added_tokens: what texts are cut at beside those; see `Tokenizer`.
        source: what an error names as the origin of vocabulary and merges.

    Raises:
        ValueError: as `ByteBpeTokenizer`.

    Source: Radford et al. 2018; Sennrich et al. 2016 (arXiv:1508.07909); huggingface/tokenizers.
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        merges: Merges,
        *,
        lowercase: bool = True,
        unknown_token: str = "<unk>",
        padding_token: str | None = None,
        added_tokens: Iterable[AddedToken | str | Mapping[str, Any]] = (),
        source: str | Path = "the arguments",
    ):
        named = {"unknown_token": unknown_token, "padding_token": padding_token}
        super().__init__(
            Vocabulary(vocabulary), lowercase=bool(lowercase), **named, added_tokens=added_tokens
        )
        # In a plain object, so that tf.Module does not track each of them.
        self._merges = SimpleNamespace(pairs=checked_merges(merges, self._base_vocabulary, source))
        with tf.init_scope(), tf.device("CPU:0"):
            rules = build_rules(lowercase=lowercase, strip_accents=lowercase, split_cjk=True)
            self._rules = Rules(*map(tf.constant, rules))
            self._raw_tokens, self._normalized_tokens = token_finders(
                self.added_tokens, lambda content: normalized_text(content, self._rules)
            )
            self._rules_of_normalized = Rules(*map(tf.constant, rules_of_normalized()))
            ids = {token: index for index, token in enumerate(self.base_vocabulary)}
            self._merger = WordMerger(ids, self.merges, self.unk_id)
            self._spellings = tf.constant(
                [
                    token.removesuffix(WORD_END) + " " if token.endswith(WORD_END) else token
                    for token in self.vocabulary
                ]
            )
        # No partial: TensorFlow stores the arguments of what it traced with a SavedModel.
        self._trace(self._tokenize_whole)

    def _tokenize_whole(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return around(self._raw_tokens, self._tokenize_plain, with_offsets=False)(texts)

    def _tokenize_plain(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Tokenizes what stands around tokens of the raw texts."""
        if self._normalized_tokens is None:
            return self._tokenize_words(texts, self._rules)
        tokenize = partial(self._tokenize_words, rules=self._rules_of_normalized)
        tokenize = around(self._normalized_tokens, tokenize, with_offsets=False)
        return tokenize_normalized(texts, self._rules, tokenize, with_offsets=False)

    def _tokenize_words(self, texts: tf.Tensor, rules: Rules) -> tf.RaggedTensor:
        (words,) = split_words(texts, rules, with_origins=False)
        ids = self._merger(tf.strings.unicode_encode(words.values, "UTF-8"))
        return joined_rows(ids, words)

    def serialized(self, *, special_in_text: bool = False) -> dict[str, Any]:
        unknown = self._options.unknown_token
        return serialized(
            bpe_model(
                self._base_vocabulary.ids,
                self.merges,
                unk_token=unknown,
                end_of_word_suffix=WORD_END,
            ),
            self._tokens_in_text(),
            normalizer=bert_normalizer(lowercase=self._options.lowercase),
            pre_tokenizer={"type": "BertPreTokenizer"},
            decoder={"type": "BPEDecoder", "suffix": WORD_END},
        )

    @property
    def merges(self) -> tuple[tuple[str, str], ...]:
        """Every merge, in its order."""
        return self._merges.pairs

    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        joined = tf.strings.reduce_join(tf.gather(self._spellings, ids), axis=1)
        return tf.strings.regex_replace(joined, " $", "")

    def _files(self) -> dict[str, Any]:
        options = self._options
        config = {
            "tokenizer_class": "OpenAIGPTTokenizer",
            "do_lower_case": options.lowercase,
            "unk_token": options.unknown_token,
        }
        if options.padding_token is not None:
            config["pad_token"] = options.padding_token
        if options.added_tokens:
            config["added_tokens_decoder"] = self._tokens_in_text()
        merges = "".join(f"{left} {right}\n" for left, right in self.merges)
        return {
            "vocab.json": json.dumps(self._base_vocabulary.ids, ensure_ascii=False) + "\n",
            "merges.txt": "#version: 0.2\n" + merges,
            "tokenizer_config.json": config,
        }
