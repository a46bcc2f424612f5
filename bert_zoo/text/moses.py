"""Moses' normalisation and words in the graph, as the models of XLM read texts.

The steps, each over a whole batch: full-width punctuation becomes ASCII's, quotes and spaces are
normalised, control characters go; then signs become words of their own, commas and apostrophes as the
language has them, and a full stop where no abbreviation ends with it.

Words equal those of sacremoses 0.2.0 as transformers 5.23 calls it, but for texts that hold the letters
DOTMULTI, by which sacremoses marks dots.

Source: Koehn et al. 2007; moses-smt/mosesdecoder scripts/tokenizer; hplt-project/sacremoses.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

import tensorflow as tf

from bert_zoo.error_text import shown
from bert_zoo.text.albert_text import TextCleaner
from bert_zoo.text.batches import replaced
from bert_zoo.text.offsets import lookup_table
from bert_zoo.text.tokenizer import import_tensorflow_text
from bert_zoo.text.unicode_tables import re2_class

# Language -> the library that finds its words for transformers.
SEGMENTERS = {"ja": "Mykytea", "th": "pythainlp", "zh": "rjieba"}
# Full-width and typographic signs -> ASCII's.
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
    "…": "...",
    "━": "-",
    "〈": "<",
    "〉": ">",
    "【": "[",
    "】": "]",
    "％": "%",
    **{chr(ord("０") + digit): str(digit) for digit in range(10)},
}
# What stands for one dot of several while words are found; the text has no private characters by then.
_DOT = "\ue000"
# Stands for no prefix, for one that keeps its full stop, and for one that does so before numbers.
_NO_PREFIX, _ALWAYS, _BEFORE_NUMBERS = range(3)
# Letters of Romanian -> ASCII's (rsennrich/wmt16-scripts preprocess).
_ROMANIAN = (
    *(("[ȘŞ]", "S"), ("[șş]", "s"), ("[ȚŢ]", "T"), ("[țţ]", "t")),
    *(("[ĂÂ]", "A"), ("[ăâ]", "a"), ("Î", "I"), ("î", "i")),
)


@functools.cache
def _tables() -> dict[str, dict]:
    return json.loads(Path(__file__).with_name("moses_tables.json").read_text(encoding="utf-8"))


@functools.cache
def _inside(name: str) -> str:
    """A set of the tables as the inside of one of RE2's character classes."""
    pairs = (item.partition("-") for item in _tables()["tables"][name].split())
    return "".join(rf"\x{{{first}}}-\x{{{last or first}}}" for first, _, last in pairs)


def _white_space() -> str:
    return re2_class("python/whitespace")


def _normalizations(language: str) -> list[tuple[str, str]]:
    """Patterns of RE2 and what takes their places, in order."""
    space, digit = _white_space(), f"([{_inside('digit')}])"
    nbsp = "\u00a0"
    found = [(rf"。[{space}]*", ". "), (rf"．[{space}]*", ". "), *_SIGNS.items()]
    # White space around signs.
    found += [("\r", ""), (r"\(", " ("), (r"\)", ") "), (" +", " "), (r"\) ([.!:?;,])", r")\1")]
    found += [(r"\( ", "("), (r" \)", ")"), (f"{digit} %", r"\1%"), (" :", ":"), (" ;", ";")]
    # Quotes and dashes.
    found += [("`", "'"), ("''", ' " '), ("[„“”]", '"'), ("–", "-"), ("—", " - "), (" +", " ")]
    found += [("´", "'"), ("([a-zA-Z])‘([a-zA-Z])", r"\1'\2"), ("([a-zA-Z])’([a-zA-Z])", r"\1'\2")]
    found += [("[‘‚’]", "'"), ("''", '"'), ("…", "...")]
    for quote in (f"{nbsp}«{nbsp}", f"«{nbsp}", "«", f"{nbsp}»{nbsp}", f"{nbsp}»", "»"):
        found.append((quote, '"'))
    # Spaces that do not break.
    found += [(f"{nbsp}%", "%"), (f"nº{nbsp}", "nº "), (f"{nbsp}:", ":"), (f"{nbsp}ºC", " ºC")]
    found += [(f"{nbsp}cm", " cm"), (rf"{nbsp}\?", "?"), (f"{nbsp}!", "!"), (f"{nbsp};", ";")]
    found += [(f",{nbsp}", ", "), (" +", " ")]
    # Quotes beside commas and full stops.
    if language == "en":
        found.append(('"([,.]+)', r'\1"'))
    elif language in ("de", "es", "fr"):
        found += [(',"', '",'), (rf'(\.+)"([{space}]*[^<])', r'"\1\2')]
    mark = "," if language in ("de", "es", "cz", "cs", "fr") else "."
    found += [(f"{digit}{nbsp}{digit}", rf"\1{mark}\2")]
    found += [(rf"\A[{space}]+", ""), (rf"[{space}]+\z", ""), (f"[{_inside('other')}]", "")]
    return [*found, *(_ROMANIAN if language == "ro" else ())]


def _separations(language: str) -> list[tuple[str, str]]:
    """The same for what sets signs apart from words; white space is single by then."""
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
    """Finds the words of texts.

    Args:
        language: two letters, or three. Languages without rules of their own are read as Moses reads
            them: with English's abbreviations, apostrophes apart.
        lowercase: whether words are lower-cased and lose their accents.

    Raises:
        ValueError: a language whose words another library finds.
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
        prefixes = prefixes.get(language, prefixes["en"])
        kinds = {
            **dict.fromkeys(prefixes["always"].split(), _ALWAYS),
            **dict.fromkeys(prefixes["before_numbers"].split(), _BEFORE_NUMBERS),
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
        """Words, string [batch, (words)], of string [batch], UTF-8."""
        texts = replaced(texts, self._normalizations)
        texts = replaced(texts, [(f"[{_white_space()}]+", " "), (r"\A | \z", "")])
        texts = replaced(texts, self._separations)
        texts = self._with_full_stops_apart(texts)
        texts = replaced(texts, [(r"\.' ?\z", " . ' "), (_DOT, ".")])
        if self._lower is not None:
            texts = self._normalize(self._lower(texts), "NFD")
            texts = tf.strings.regex_replace(texts, f"[{_inside('nonspacing')}]", "")
            texts = self._lower(texts)
        return tf.strings.split(texts)

    def _with_full_stops_apart(self, texts: tf.Tensor) -> tf.Tensor:
        """Sets apart the full stop of words that are no abbreviations; single spaces stand between words."""
        words = tf.strings.split(texts)
        word = words.values
        # No word follows a text's last one.
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
