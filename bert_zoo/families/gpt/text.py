"""BPE over the characters of words, with the ids of Hugging Face's fast GPT tokenizer on every input.

A text is split into words as by BERT. Each word begins as its characters, the last one with the suffix
"</w>", which are merged as in `bert_zoo.text.byte_bpe`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bert_zoo.graph import tf
from bert_zoo.text.byte_bpe import WORD_END, Merges, MergesWords, checked_merges, merge_files
from bert_zoo.text.files import AddedToken, Vocabulary
from bert_zoo.text.format import bert_normalizer, bpe_model, serialized
from bert_zoo.text.normalizer import BertNormalizer, Rules, split_words
from bert_zoo.text.token_finder import AddedTokens
from bert_zoo.text.tokenizer import Marks


class CharBpeTokenizer(MergesWords):
    """GPT's tokenizer: cleans, lower-cases and splits texts into words as BERT's, then merges characters.

    Ids equal those of the tokenizers library's BertNormalizer, BertPreTokenizer and BPE on every text.
    (OpenAI's own program split words with ftfy and spaCy, which transformers no longer does either.)
    Special and added tokens inside a text become their own ids. A character that the vocabulary lacks is
    one unknown token. There are no offsets. `word_starts` is true for every token, as tokens mark only
    the ends of words.

    Args:
        vocabulary: tokens in the order of their ids; those that end a word end in `</w>`.
        merges: pairs of tokens, first merges first.
        lowercase: lower-case the text, and remove accents.
        unknown_token: name of the unknown token.
        padding_token: name of the padding token; None if there is none.
        added_tokens: tokens that are kept whole, besides these; see `AddedToken`.
        source: where vocabulary and merges come from, for error messages.

    Raises:
        ValueError: duplicates in the vocabulary, a special token that it lacks, merges that do not
            fit it, or an added token that normalisation empties.

    Source: Radford et al. 2018; Sennrich et al. 2016 (arXiv:1508.07909); huggingface/tokenizers.
    """

    marks = Marks(ends=WORD_END)
    joints = ((r" \z", ""),)

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
        checked = Vocabulary(vocabulary)
        merges = checked_merges(merges, checked, source)
        super().__init__(
            checked, merges, lowercase=bool(lowercase), **named, added_tokens=added_tokens
        )
        self._build_graph()

    def _build(self) -> None:
        lowercase = self._options.lowercase
        normalizer = BertNormalizer(lowercase=lowercase, strip_accents=lowercase, split_cjk=True)
        self._prepare(
            partial(_words, rules=normalizer.rules),
            self._base_vocabulary.ids,
            AddedTokens(self.added_tokens, normalizer),
            in_normalized=partial(_words, rules=normalizer.rules_of_normalized),
        )

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

    def _spelling(self, token: str) -> str:
        return token.removesuffix(WORD_END) + " " if token.endswith(WORD_END) else token

    def _files(self) -> dict[str, Any]:
        config = self._config("OpenAIGPTTokenizer", do_lower_case=self._options.lowercase)
        if self._options.added_tokens:
            config["added_tokens_decoder"] = self._tokens_in_text()
        files = merge_files(self._base_vocabulary.ids, self.merges, "#version: 0.2\n")
        return {**files, "tokenizer_config.json": config}


def _words(texts: tf.Tensor, rules: Rules) -> tf.RaggedTensor:
    (words,) = split_words(texts, rules, with_origins=False)
    return words.with_values(tf.strings.unicode_encode(words.values, "UTF-8"))
