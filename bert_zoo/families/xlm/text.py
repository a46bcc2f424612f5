"""Moses' normalisation and word splitting in the graph, for XLM's models.

Each step handles a whole batch. First full-width punctuation becomes ASCII, quotes and spaces are normalised,
and control characters are removed. Then signs become separate words: commas and apostrophes by the rules of the
language, and full stops unless they end an abbreviation.

Words equal those of sacremoses 0.2.0 as transformers 5.23 calls it, except in texts with the letters DOTMULTI,
which sacremoses uses to mark dots.

Source: Koehn et al. 2007; moses-smt/mosesdecoder scripts/tokenizer; hplt-project/sacremoses.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from bert_zoo.error_text import shown
from bert_zoo.graph import tf
from bert_zoo.text.batches import (
    MARK,
    is_marked,
    is_white_space,
    lookup_table,
    picked,
    replaced,
    split_at_white_space,
)
from bert_zoo.text.byte_bpe import WORD_END, Merges, MergesWords, at_last_places, merge_files
from bert_zoo.text.files import AddedToken, Vocabulary, special_tokens
from bert_zoo.text.normalizer import TextCleaner
from bert_zoo.text.token_finder import AddedTokens
from bert_zoo.text.tokenizer import STRIPPED, Marks, import_tensorflow_text
from bert_zoo.text.unicode_tables import re2_class

# Language -> the library that transformers uses to split its words.
SEGMENTERS = {"ja": "Mykytea", "th": "pythainlp", "zh": "rjieba"}
# A pattern of RE2 and its replacement. White space aside, one character replaces one. Otherwise bars mark what
# changes in the replacement, and a third part is the match with bars around the same.
_Rule = tuple[str, str] | tuple[str, str, str]
_MATCH = r"|\0|"
# Full-width and typographic signs -> ASCII.
_SIGNS = {
    "[”“《》」「]": '"',
    "[，、]": ",",
    "[∶：]": ":",
    "？": "?",
    "）": ")",
    "！": "!",
    "（": "(",
    "；": ";",
    "～": "~",
    "’": "'",
    "━": "-",
    "〈": "<",
    "〉": ">",
    "【": "[",
    "】": "]",
    "％": "%",
    **{chr(ord("０") + digit): str(digit) for digit in range(10)},
}
# Replaces each of several dots while words are split. Private characters are already removed from the text.
_DOT = "\ue000"
# No abbreviation, an abbreviation that keeps its full stop, one that keeps it before numbers.
_NO_PREFIX, _ALWAYS, _BEFORE_NUMBERS = range(3)
# Romanian letters -> ASCII (rsennrich/wmt16-scripts preprocess).
_ROMANIAN = (
    *(("[ȘŞ]", "S"), ("[șş]", "s"), ("[ȚŢ]", "T"), ("[țţ]", "t")),
    *(("[ĂÂ]", "A"), ("[ăâ]", "a"), ("Î", "I"), ("î", "i")),
)


@functools.cache
def _tables() -> dict[str, dict]:
    return json.loads(Path(__file__).with_name("moses_tables.json").read_text(encoding="utf-8"))


@functools.cache
def _inside(name: str) -> str:
    """A set from the tables, written as the inside of a character class of RE2."""
    pairs = (item.partition("-") for item in _tables()["tables"][name].split())
    return "".join(rf"\x{{{first}}}-\x{{{last or first}}}" for first, _, last in pairs)


def _white_space() -> str:
    return re2_class("python/whitespace")


def _normalizations(language: str) -> list[_Rule]:
    """The normalisations of texts, in order."""
    space, digit = _white_space(), f"([{_inside('digit')}])"
    nbsp = "\u00a0"
    found = [(rf"。[{space}]*", ". "), (rf"．[{space}]*", ". "), *_SIGNS.items()]
    found.append(("…", "|...|", _MATCH))
    # White space around signs.
    found += [("\r", ""), (r"\(", " ("), (r"\)", ") "), (" +", " "), (r"\) ([.!:?;,])", r")\1")]
    found += [(r"\( ", "("), (r" \)", ")"), (f"{digit} %", r"\1%"), (" :", ":"), (" ;", ";")]
    # Quotes and dashes.
    found += [("`", "'"), ("''", '| " |', _MATCH), ("[„“”]", '"')]
    found += [("–", "-"), ("—", " - "), (" +", " ")]
    found += [("´", "'"), ("([a-zA-Z])‘([a-zA-Z])", r"\1'\2"), ("([a-zA-Z])’([a-zA-Z])", r"\1'\2")]
    found += [("[‘‚’]", "'"), ("''", '|"|', _MATCH)]
    for quote in (f"{nbsp}«{nbsp}", f"«{nbsp}", "«", f"{nbsp}»{nbsp}", f"{nbsp}»", "»"):
        found.append((quote, '"'))
    # Non-breaking spaces.
    found += [(f"{nbsp}%", "%"), (f"nº{nbsp}", "nº "), (f"{nbsp}:", ":"), (f"{nbsp}ºC", " ºC")]
    found += [(f"{nbsp}cm", " cm"), (rf"{nbsp}\?", "?"), (f"{nbsp}!", "!"), (f"{nbsp};", ";")]
    found += [(f",{nbsp}", ", "), (" +", " ")]
    # Quotes next to commas and full stops.
    if language == "en":
        found.append(('"([,.]+)', r'|\1"|', _MATCH))
    elif language in ("de", "es", "fr"):
        found += [(',"', '|",|', _MATCH)]
        found += [(rf'(\.+)"([{space}]*[^<])', r'|"\1|\2', r'|\1"|\2')]
    mark = "," if language in ("de", "es", "cz", "cs", "fr") else "."
    found.append((f"{digit}{nbsp}{digit}", rf"\1|{mark}|\2", rf"\1|{nbsp}|\2"))
    found += [(rf"\A[{space}]+", ""), (rf"[{space}]+\z", "")]
    found.append((f"[{_inside('other')}]", "||", _MATCH))
    return [*found, *(_ROMANIAN if language == "ro" else ())]


def _separations(language: str) -> list[tuple[str, str]]:
    """The rules that split signs from words, for texts with single spaces."""
    hangul = _inside("hangul") if language == "ko" else ""
    alnum, alpha, number = _inside("alnum") + hangul, _inside("alpha"), _inside("number")
    found = [(rf"([^{alnum} .'`,\-])", r" \1 ")]
    found += [(r"\.\.", _DOT * 2), (rf"{_DOT}\.", _DOT * 2), (f"({_DOT}+)", r" \1 ")]
    found += [(f"([^{number}]),", r"\1 , "), (f",([^{number}])", r" , \1")]
    found += [(rf"([{number}]),\z", r"\1 , ")]
    if language == "en":
        found += [
            (f"([^{alpha}])'([^{alpha}])", r"\1 ' \2"),
            (f"([^{alpha}{number}])'([{alpha}])", r"\1 ' \2"),
            (f"([{alpha}])'([^{alpha}])", r"\1 ' \2"),
            (f"([{alpha}])'([{alpha}])", r"\1 '\2"),
            (f"([{number}])'(s)", r"\1 '\2"),
        ]
    elif language in ("fr", "it"):
        found += [
            (f"([^{alpha}])'([^{alpha}])", r"\1 ' \2"),
            (f"([^{alpha}])'([{alpha}])", r"\1 ' \2"),
            (f"([{alpha}])'([^{alpha}])", r"\1 ' \2"),
            (f"([{alpha}])'([{alpha}])", r"\1' \2"),
        ]
    else:
        found += [("'", " ' ")]
    return found


class MosesWords(tf.Module):
    """Splits texts into words by the rules of a language, a code of two or three letters; as in Moses, those without
    rules get English abbreviations and split apostrophes. `lowercase` also removes accents.
    """

    def __init__(self, language: str, *, lowercase: bool):
        super().__init__()
        if language in SEGMENTERS:
            raise ValueError(
                f"Words of language={shown(language)} are found by the Python package "
                f"{SEGMENTERS[language]}, which runs before the graph. Join its words with spaces, and "
                "make the tokenizer with pretokenized=True."
            )
        prefixes = _tables()["prefixes"]
        kinds = {
            prefix.removesuffix("#"): _BEFORE_NUMBERS if prefix.endswith("#") else _ALWAYS
            for prefix in prefixes.get(language, prefixes["en"]).split()
        }
        self._prefixes = lookup_table([*kinds], [*kinds.values()], default=_NO_PREFIX)
        self._normalizations = tuple(_normalizations(language))
        self._separations = tuple(_separations(language))
        alpha = _inside("alpha") + (_inside("hangul") if language == "ko" else "")
        self._with_alpha = rf"\C*[{alpha}]\C*"
        self._lower = None
        if lowercase:
            self._lower = TextCleaner(keep_accents=True, lowercase=True)
            self._normalize = import_tensorflow_text().normalize_utf8

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Splits UTF-8 texts, string [batch], into words, string [batch, (words)]."""
        return self._words(texts)[0]

    def with_spans(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Words, and each character's start and end in the text, int32 [characters, 2], which never decrease."""
        return self._words(texts, spans_of_characters(texts))

    def _words(
        self, texts: tf.Tensor, spans: tf.Tensor | None = None
    ) -> tuple[tf.RaggedTensor, tf.Tensor | None]:
        for pattern, rewrite, *match in self._normalizations:
            if match and spans is not None:
                marked = (each.encode().replace(b"|", MARK) for each in (*match, rewrite))
                before_and_after = (tf.strings.regex_replace(texts, pattern, m) for m in marked)
                spans = spans_after(spans, *before_and_after)
            texts = tf.strings.regex_replace(texts, pattern, rewrite.replace("|", ""))
        texts = replaced(texts, [(f"[{_white_space()}]+", " "), (r"\A | \z", "")])
        texts = replaced(texts, self._separations)
        texts = self._with_full_stops_apart(texts)
        texts = replaced(texts, [(r"\.' ?\z", " . ' "), (_DOT, ".")])
        if self._lower is not None:
            if spans is not None:
                spans = tf.repeat(spans, self._lengths_without_accents(texts), axis=0)
            texts = self._without_accents(texts)
        return tf.strings.split(texts), spans

    def _without_accents(self, texts: tf.Tensor) -> tf.Tensor:
        texts = self._normalize(self._lower(texts), "NFD")
        texts = tf.strings.regex_replace(texts, f"[{_inside('nonspacing')}]", "")
        return self._lower(texts)

    def _lengths_without_accents(self, texts: tf.Tensor) -> tf.Tensor:
        """The number of characters that each character becomes, without white space: int32 [characters]."""
        words = tf.strings.unicode_split(tf.strings.regex_replace(texts, " ", ""), "UTF-8")
        characters, which = tf.unique(words.values)
        lengths = tf.strings.length(self._without_accents(characters), unit="UTF8_CHAR")
        return tf.gather(lengths, which)

    def _with_full_stops_apart(self, texts: tf.Tensor) -> tf.Tensor:
        """Splits off the full stops of words that are not abbreviations, in texts with single spaces."""
        words = tf.strings.split(texts)
        word = words.values
        # A text's last word has no next word.
        following = tf.concat([word[1:], [""]], 0)
        lasts = words.row_splits[1:] - 1
        lasts = tf.boolean_mask(lasts, words.row_lengths() > 0)[:, None]
        following = tf.tensor_scatter_nd_update(following, lasts, tf.fill(tf.shape(lasts)[:1], ""))
        prefix = tf.strings.regex_replace(word, r"\.\z", "")
        kind = self._prefixes.lookup(prefix)
        matches = tf.strings.regex_full_match
        is_kept = (
            (matches(prefix, r"\C*\.\C*") & matches(prefix, self._with_alpha))
            | (kind == _ALWAYS)
            | matches(following, rf"[{_inside('lower')}]\C*")
            | ((kind == _BEFORE_NUMBERS) & matches(following, r"[0-9]\C*"))
        )
        ends = matches(word, r"\C+\.") & ~is_kept
        word = tf.where(ends, tf.strings.join([prefix, " ."]), word)
        return tf.strings.reduce_join(words.with_values(word), axis=1, separator=" ")


def spans_of_characters(texts: tf.Tensor) -> tf.Tensor:
    """Start and end of each character in its UTF-8 text [batch]: int32 [characters, 2]. White space is left out here
    and in `spans_after`. So a step that only changes white space, or replaces one character by one, does not change
    the spans.
    """
    codes = tf.strings.unicode_decode(texts, "UTF-8")
    positions = tf.ragged.range(tf.cast(codes.row_lengths(), tf.int32)).values
    starts = picked(positions, ~is_white_space(codes.values))
    return tf.stack([starts, starts + 1], axis=1)


def spans_after(spans: tf.Tensor, before: tf.Tensor, after: tf.Tensor) -> tf.Tensor:
    """The spans, int32 [characters, 2] (neither column decreases), after a change of texts [batch] from `before` to
    `after`, which are equal but for white space and the changed parts, each between two MARKs. A new character gets
    the span of everything that it and its neighbours replace. If that was white space, it gets the span between the
    characters around it.
    """
    old, new = (tf.strings.split(texts, MARK) for texts in (before, after))
    is_changed = is_marked(old)
    old, new = (_lengths_without_white_space(parts.values) for parts in (old, new))
    part = tf.repeat(tf.range(tf.size(new)), new)
    place = tf.range(tf.size(part)) - tf.gather(tf.cumsum(new, exclusive=True), part)
    begin, length, is_changed = (
        tf.gather(column, part) for column in (tf.cumsum(old, exclusive=True), old, is_changed)
    )
    first = tf.where(is_changed, begin, begin + place)
    last = tf.where(is_changed, begin + length - 1, first)
    # If white space was replaced, `first` is the character after it and `last` the one before.
    is_inserted = last < first
    starts, ends = spans[:, 0], spans[:, 1]
    return tf.stack(
        [
            tf.where(is_inserted, tf.gather(ends, last), tf.gather(starts, first)),
            tf.where(is_inserted, tf.gather(starts, first), tf.gather(ends, last)),
        ],
        axis=1,
    )


def _lengths_without_white_space(texts: tf.Tensor) -> tf.Tensor:
    white_space = f"[{re2_class('python/whitespace')}]+"
    return tf.strings.length(tf.strings.regex_replace(texts, white_space, ""), unit="UTF8_CHAR")


class WordBpeTokenizer(MergesWords):
    """XLM's tokenizer: splits texts into words as Moses does, then merges characters to tokens.

    Ids equal those of transformers' XLMTokenizer with the same `lang` (see `bert_zoo.families.xlm.text`).
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
    joints = (STRIPPED,)

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
        added = AddedTokens(self.added_tokens, in_raw_texts=True)
        self._prepare(words, self._base_vocabulary.ids, added, with_spans=with_spans)

    def in_language(self, language: str) -> Self:
        """Returns a tokenizer for texts in another language, with the same vocabulary.

        Raises:
            ValueError: as the constructor.
        """
        return self.with_options(language=language)

    def _spelling(self, token: str) -> str:
        return token.replace(WORD_END, " ")

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
