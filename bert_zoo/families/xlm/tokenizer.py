"""BPE of words in the graph, with the ids of transformers' XLMTokenizer.

Words are split as by Moses (`bert_zoo.families.xlm.moses`). Each begins as its characters, the last one with
"</w>". Of the neighbouring pairs, the one that comes first in the list of merges is joined wherever it
occurs, until no pair is in the list.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from bert_zoo.error_text import shown
from bert_zoo.families.xlm.moses import MosesWords, spans_of_characters
from bert_zoo.graph import tf
from bert_zoo.text.added_tokens import AddedToken
from bert_zoo.text.batches import split_at_white_space
from bert_zoo.text.bpe import WORD_END, Merges, MergesWords, at_last_places, merge_files
from bert_zoo.text.token_finder import AddedTokens
from bert_zoo.text.tokenizer import Marks
from bert_zoo.text.vocabulary import Vocabulary, special_tokens


class WordBpeTokenizer(MergesWords):
    """XLM's tokenizer: splits texts into words as Moses does, then merges characters to tokens.

    Ids equal those of transformers' XLMTokenizer with the same `lang` (see `bert_zoo.families.xlm.moses`).
    Special and added tokens inside a text become their own ids, as they do there. Offsets count characters
    of the original text. A token covers all characters that its own were made from.

    Args:
        vocabulary: tokens in the order of their ids; those that end a word end with `</w>`.
        merges: pairs of tokens, first merges first. Their results need not be in the vocabulary.
        language: language of the texts, such as "en".
        languages: name -> number of each language that the model was trained on; None for a model without
            languages as input.
        lowercase: lower-case, and remove accents.
        pretokenized: texts are split into words by white space already, and are neither normalised nor
            lower-cased (transformers' `bypass_tokenizer`).
        unknown_token, padding_token, cls_token, sep_token, mask_token: names of the special tokens.
        added_tokens: tokens that are kept whole, besides the special tokens; see `AddedToken`.

    Attributes:
        language_id: number of the language; None if `languages` is None.

    Raises:
        ValueError: duplicates in the vocabulary, a special token that it lacks, a language that the model
            was not trained on, or one that needs a word splitter of its own (Chinese, Japanese, Thai).

    Source: Sennrich et al. 2016 (arXiv:1508.07909); huggingface/transformers tokenization_xlm.py.
    """

    marks = Marks(ends=WORD_END)

    def __init__(
        self,
        vocabulary: Sequence[str],
        merges: Merges,
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
            at_last_places(merges),
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
        self._build_graph()

    def _build(self) -> None:
        options = self._options
        if options.pretokenized:
            words, with_spans = split_at_white_space, _split_with_spans
        else:
            words = MosesWords(options.language, lowercase=options.lowercase)
            with_spans = words.with_spans
        self._spellings = tf.constant([token.replace(WORD_END, " ") for token in self.vocabulary])
        added = AddedTokens(self.added_tokens, in_raw_texts=True)
        self._prepare(words, self._base_vocabulary.ids, added, with_spans=with_spans)

    def in_language(self, language: str) -> Self:
        """Returns a tokenizer for texts in another language, with the same vocabulary.

        Raises:
            ValueError: as the constructor.
        """
        return self.with_options(language=language)

    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        joined = tf.strings.reduce_join(tf.gather(self._spellings, ids), axis=1)
        return tf.strings.strip(joined)

    def _joined(self, tokens: list[str]) -> str:
        return "".join(tokens).replace(WORD_END, " ").strip(string.whitespace)

    def _files(self) -> dict[str, Any]:
        options = self._options
        config = {
            **self._config(
                "XLMTokenizer",
                do_lowercase_and_remove_accent=options.lowercase,
                language=options.language,
                pretokenized=options.pretokenized,
            ),
            # transformers puts this one before a text, whatever its documentation says.
            "bos_token": options.cls_token,
            "added_tokens_decoder": self._tokens_in_text(),
        }
        if options.languages is not None:
            config["lang2id"] = options.languages
            config["id2lang"] = {str(number): name for name, number in options.languages.items()}
        return {
            **merge_files(self._base_vocabulary.ids, self.merges),
            "tokenizer_config.json": config,
        }


def _split_with_spans(texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
    return split_at_white_space(texts), spans_of_characters(texts)
