"""Normalisation of tweets in the graph, as for BERTweet's training.

A tweet becomes words with single spaces between them. Character references are replaced. Words are found as
by NLTK's TweetTokenizer of 2020. User names become @USER, links HTTPURL, and an emoji of one character its
name. Contractions are split.

Texts equal those of `BertweetTokenizer.normalizeTweet` of transformers 5.23 with emoji 0.6.0, whose names
were used in the training. Numeric character references are read only in ASCII digits without a sign.

Source: Nguyen et al. 2020 (arXiv:2005.10200), section 2; VinAIResearch/BERTweet TweetNormalizer.py; nltk/nltk
nltk/tokenize/casual.py.
"""

from __future__ import annotations

import functools
import html.entities
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bert_zoo.families.bertweet import FIRST_TOKENS
from bert_zoo.graph import tf
from bert_zoo.text.batches import (
    MARK,
    as_utf8,
    is_marked,
    look_up,
    lookup_table,
    picked,
    replaced,
    split_at_white_space,
    text_batch,
)
from bert_zoo.text.byte_bpe import WORD_END, Merges, MergesWords, at_last_places
from bert_zoo.text.files import AddedToken, Vocabulary, special_tokens
from bert_zoo.text.token_finder import AddedTokens
from bert_zoo.text.tokenizer import STRIPPED, Marks
from bert_zoo.text.unicode_tables import code_points, paged, re2_class

# An unassigned code point, in no vocabulary, for what cannot be written here otherwise.
UNKNOWN = "\u0378"
_SIGNS = {"’": "'", "…": "..."}
# Rewriting of words, in this order. The two spaces before "p.m." become one in the end.
_REWRITTEN = (
    *(("cannot ", "can not "), ("n't ", " n't "), ("n 't ", " n't ")),
    *(("ca n't", "can't"), ("ai n't", "ain't")),
    *((f"'{ending} ", f" '{ending} ") for ending in ("m", "re", "s", "ll", "d", "ve")),
    *((r" p \. m \.", "  p.m."), (r" p \. m ", " p.m ")),
    *((r" a \. m \.", " a.m."), (r" a \. m ", " a.m ")),
)

# Words are found in a text's shape, which has one symbol for all characters that the rules treat alike.
# RE2 has no lookaround, so symbols also encode their neighbours: a letter is in upper case if neither "@" nor
# a word character follows it, a slash before "@" has its own symbol, and letters and digits after "@" are
# moved up by 128 code points.
_WORD, _NUMBER, _QUOTE, _OTHER, _SLASH_BEFORE_AT = "\x01\x02\x03\x04\x05"
_BEHIND_AT = 0x80
# Marks matches in a shape, where all white space but the blank is a tab.
_SHAPE_MARK = "\n"


def _any_of(characters: str) -> str:
    """All symbols of letters and digits, for the inside of an RE2 character class."""
    symbols = dict.fromkeys(characters.lower() + characters.upper())
    return "".join(rf"{symbol}\x{{{ord(symbol) + _BEHIND_AT:x}}}" for symbol in symbols)


def _literally(letters: str) -> str:
    return "".join(f"[{_any_of(letter)}]" for letter in letters)


def _word_pattern() -> str:
    """TweetTokenizer's words as a pattern over shapes; earlier alternatives take precedence."""
    letter, digit = _any_of("abcdefghijklmnopqrstuvwxyz"), _any_of("0123456789")
    number, alpha = digit + _NUMBER, letter + _WORD
    word, slash = f"{alpha}{number}_", f"/{_SLASH_BEFORE_AT}"
    label = f"[{letter}{digit}]+"

    parenthesis = r"\([^ \t]+?\)"
    nested = r"\([^ \t()]*?\([^ \t()]+\)[^ \t()]*?\)"
    scheme = rf"{_literally('http')}[{_any_of('s')}]?:(?:[{slash}]{{1,3}}|[{letter}{digit}%])"
    host = rf"[{letter}{digit}.\-]+\.[{letter}]{{2,13}}[{slash}]"
    path = rf"(?:[^ \t()<>{{}}\[\]]+|{nested}|{parenthesis})+"
    path_end = rf"""(?:{nested}|{parenthesis}|[^ \t`!()\[\]{{}};:'".,<>?{_QUOTE}])"""
    # Neither after nor before "@", where it would be part of an address.
    last_letter = rf"[A-Z\x{{{ord('A') + _BEHIND_AT:x}}}-\x{{{ord('Z') + _BEHIND_AT:x}}}]"
    domain = rf"[a-zA-Z0-9][{letter}{digit}]*(?:[.\-]{label})*\.[{letter}]{{1,12}}{last_letter}/?"

    between = r"[ *\-.)]*"
    phone = (
        rf"(?:\+?[{_any_of('01')}]{between})?(?:\(?[{number}]{{3}}{between})?"
        rf"[{number}]{{3}}{between}[{number}]{{4}}"
    )
    eyes, nose = f"[:;={_any_of('8')}]", rf"[\-{_any_of('o')}*']?"
    mouth = rf"[)\](\[{_any_of('dp')}{slash}:}}{{@|\\]"
    emoticon = f"[<>]?{eyes}{nose}{mouth}|{mouth}{nose}{eyes}[<>]?|<{_literally('3')}"
    return "|".join(
        (
            f"(?:{scheme}|{host}){path}{path_end}",
            domain,
            phone,
            emoticon,
            r"<[^> \t]+>",
            r"-+>|<-+",
            f"@[{word}]+",
            rf"#+[{word}]+[{word}'\-]*[{word}]+",
            rf"[{word}.+\-]+@[{word}\-]+\.(?:[{word}\-]\.?)+[{word}\-]",
            rf"[{alpha}][{alpha}'_\-]+[{alpha}]",
            rf"[+\-]?[{number}]+[,{slash}.:\-][{number}]+[+\-]?",
            f"[{word}]+",
            r"\.(?:[ \t]*\.)+",
            r"[^ \t]",
        )
    )


def _symbols() -> np.ndarray:
    """The symbol of each code point, int32 [0x110000]."""
    symbols = np.full(0x110000, ord(_OTHER), np.int32)
    symbols[ord("!") : ord("~") + 1] = np.arange(ord("!"), ord("~") + 1)
    symbols[ord("A") : ord("Z") + 1] += ord("a") - ord("A")
    for name, symbol in (("word", _WORD), ("number", _NUMBER)):
        codes = np.array(code_points(f"tweets/{name}"))
        symbols[codes[codes > 0x7F]] = ord(symbol)
    symbols[code_points("byte_bpe/whitespace")] = ord("\t")
    symbols[ord(" ")] = ord(" ")
    symbols[[ord(quote) for quote in "«»“”‘’"]] = ord(_QUOTE)
    # Letters to [a-z] where case is ignored.
    for character, letter in (("\u017f", "s"), ("\u0130", "i"), ("\u212a", "k")):
        symbols[ord(character)] = ord(letter)
    return symbols


def _emoji_names() -> dict[str, str]:
    """Emoji -> name between colons; empty for a variation selector."""
    path = Path(__file__).with_name("emoji_tables.json")
    table = json.loads(path.read_text(encoding="utf-8"))
    names = table["names"].split(" ")
    return {c: name and f":{name}:" for c, name in zip(table["characters"], names, strict=True)}


class TweetNormalizer(tf.Module):
    """Normalises tweets as for BERTweet's training: user names, links, emoji and contractions.

    `TweetBpeTokenizer` does this itself. Use it to prepare texts for another tokenizer.

    Source: Nguyen et al. 2020 (arXiv:2005.10200), section 2; VinAIResearch/BERTweet TweetNormalizer.py.
    """

    def __init__(self):
        super().__init__()
        names = _emoji_names() | _SIGNS
        entities = html.entities.name2codepoint
        with tf.init_scope(), tf.device("CPU:0"):
            self._names = tf.constant([*names.values()])
            self._name_of = lookup_table([*names], [*range(len(names))], default=-1)
            # What begins with "x" is read as a number.
            self._entities = lookup_table(
                [f"&{name};" for name in entities if not name.startswith("x")],
                [code for name, code in entities.items() if not name.startswith("x")],
                default=-1,
            )
            self._digits = lookup_table(
                [*"0123456789abcdefABCDEF"], [*range(16), *range(10, 16)], default=0
            )
            pages, rows = paged(_symbols())
            self._pages, self._rows = tf.constant(pages), tf.constant(rows)
        self._words = _word_pattern()

    @tf.autograph.experimental.do_not_convert
    def __call__(self, texts: Any) -> tf.Tensor:
        """Normalises a batch of tweets.

        Args:
            texts: a str (a batch of one), a list or array of them, or a string tensor [batch].

        Returns:
            string [batch]: words with single spaces between them.

        Raises:
            TypeError, ValueError: `texts` is not a batch of texts.
        """
        texts = replaced(as_utf8(text_batch(texts)), _SIGNS.items())
        texts = self._with_references_replaced(texts)
        words = self._find_words(texts)
        word = replaced(words.values, [(r"\A@\C*", "@USER"), (r"\A(?i:http|www)\C*", "HTTPURL")])
        name = self._name_of.lookup(word)
        word = tf.where(name < 0, word, tf.gather(self._names, tf.maximum(name, 0)))
        # Not as reduce_join's separator, which is lost after the empty words of variation selectors.
        word = tf.strings.join([" ", word])
        texts = tf.strings.reduce_join(words.with_values(word), axis=1)
        texts = tf.strings.regex_replace(texts, r"\A ", "")
        words = split_at_white_space(replaced(texts, _REWRITTEN))
        return tf.strings.reduce_join(words, axis=1, separator=" ")

    def _with_references_replaced(self, texts: tf.Tensor) -> tf.Tensor:
        """Replaces HTML's character references; drops unknown ones."""
        reference = f"&[^&;{re2_class('byte_bpe/whitespace')}]+;"
        marked = tf.strings.regex_replace(texts, reference, MARK + rb"\0" + MARK)
        parts = tf.strings.split(marked, MARK)
        places = tf.where(is_marked(parts))
        characters = self._referred(tf.gather_nd(parts.values, places))
        joined = tf.tensor_scatter_nd_update(parts.values, places, characters)
        return tf.strings.reduce_join(parts.with_values(joined), axis=1)

    def _referred(self, references: tf.Tensor) -> tf.Tensor:
        """The characters of references "&...;", string [n]; "" for unknown ones."""
        matches = tf.strings.regex_full_match
        is_decimal = matches(references, "&#0*[0-9]{1,7};")
        is_hexadecimal = matches(references, "&#?x0*[0-9a-fA-F]{1,6};")
        digits = replaced(references, [("&#?x?|;", "")])
        digits = tf.strings.substr(tf.strings.join(["0" * 7, digits]), -7, 7)
        digits = self._digits.lookup(tf.strings.bytes_split(digits).to_tensor(shape=[None, 7]))
        decimal, hexadecimal = (
            tf.reduce_sum(digits * [base**power for power in range(6, -1, -1)], axis=1)
            for base in (10, 16)
        )
        code = tf.where(is_hexadecimal, hexadecimal, self._entities.lookup(references))
        code = tf.where(is_decimal, decimal, code)
        # As in browsers, control characters are Windows-1252's.
        is_windows = (code >= 0x80) & (code < 0xA0)
        code = tf.where(
            is_windows, tf.gather(_windows(), tf.clip_by_value(code - 0x80, 0, 31)), code
        )
        code = tf.where((code >= 0xD800) & (code < 0xE000), ord(UNKNOWN), code)
        is_known = (code >= 0) & (code < 0x110000)
        characters = tf.strings.unicode_encode(tf.where(is_known, code, 0)[:, None], "UTF-8")
        return tf.where(is_known, characters, "")

    def _find_words(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """TweetTokenizer's words, string [batch, (words)], which may hold white space."""
        # White space after each text separates it from the next.
        codes = tf.strings.unicode_decode(tf.strings.join([texts, "\n"]), "UTF-8")
        codes = _shortened(codes)
        shapes = tf.strings.unicode_encode(codes.with_values(self._shape(codes.values)), "UTF-8")
        marked = tf.strings.regex_replace(shapes, self._words, rf"{_SHAPE_MARK}\0{_SHAPE_MARK}")
        parts = tf.strings.split(marked, _SHAPE_MARK)
        lengths = tf.strings.length(parts.values, unit="UTF8_CHAR")
        spelled = tf.RaggedTensor.from_row_lengths(codes.values, lengths, validate=False)
        spelled = tf.strings.unicode_encode(spelled, "UTF-8")
        return tf.RaggedTensor.from_row_lengths(
            picked(spelled, is_marked(parts)), parts.row_lengths() // 2, validate=False
        )

    def _shape(self, codes: tf.Tensor) -> tf.Tensor:
        """The symbols of code points, int32 [n]."""
        symbols = look_up(codes, self._pages, self._rows)
        before = tf.concat([[ord(" ")], symbols], 0)[:-1]
        after = tf.concat([symbols, [ord(" ")]], 0)[1:]
        is_letter, is_digit = (
            (symbols >= ord(first)) & (symbols <= ord(last)) for first, last in ("az", "09")
        )
        continues = tf.gather(_CONTINUES, after)
        upper = tf.where(is_letter & ~continues, ord("A") - ord("a"), 0)
        slash = (symbols == ord("/")) & (after == ord("@"))
        behind = tf.where((is_letter | is_digit) & (before == ord("@")), _BEHIND_AT, 0)
        return tf.where(slash, ord(_SLASH_BEFORE_AT), symbols + upper + behind)


# Whether no domain can end before a symbol: word characters and "@", before neighbours are encoded.
_CONTINUES = np.array([chr(i).isalnum() or chr(i) in f"_@{_WORD}{_NUMBER}" for i in range(0x80)])


@functools.cache
def _windows() -> np.ndarray:
    """Code points of the bytes 0x80 to 0x9F in Windows-1252; -1 for undefined ones."""
    characters = bytes(range(0x80, 0xA0)).decode("cp1252", "replace")
    return np.array([-1 if c == "\ufffd" else ord(c) for c in characters], np.int32)


def _shortened(codes: tf.RaggedTensor) -> tf.RaggedTensor:
    """Leaves three of a character that stands more often in a row, ASCII's letters and digits aside."""
    code = codes.values
    before = tf.concat([[-1, -1, -1], code], 0)
    is_repeated = (code == before[2:-1]) & (code == before[1:-2]) & (code == before[:-3])
    alphanumeric = tf.constant([chr(i).isalnum() for i in range(0x80)] + [False])
    is_kept = ~is_repeated | tf.gather(alphanumeric, tf.minimum(code, 0x80))
    # The last of each text is what stands after it.
    lasts = codes.row_splits[1:, None] - 1
    is_kept = tf.tensor_scatter_nd_update(
        is_kept, lasts, tf.ones_like(codes.row_splits[1:], tf.bool)
    )
    return tf.ragged.boolean_mask(codes, codes.with_values(is_kept))


# The end of tokens that do not end a word.
CONTINUED = "@@"


class TweetBpeTokenizer(MergesWords):
    """BERTweet's tokenizer: normalises tweets, then merges the characters of words to tokens.

    Ids equal those of transformers' BertweetTokenizer with the same `normalization` (see
    `bert_zoo.families.bertweet.text`). Special and added tokens inside a text become their own ids, as
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
    separator, joints = " ", ((f"{CONTINUED} ", ""), STRIPPED)

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
        self._prepare(self._find, ids, AddedTokens(self.added_tokens, in_raw_texts=True))

    def _find(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return split_at_white_space(self._normalize(texts))

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
