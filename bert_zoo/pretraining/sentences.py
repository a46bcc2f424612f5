"""Splits texts into sentences by punctuation, and keeps every character.

One rule for all languages. Alternatives have problems: sentencex 1.0.32 panics on characters such as U+2028
and takes quadratic time on long paragraphs, pysbd has had no release since 2021, tensorflow_text's
StateBasedSentenceBreaker splits "p.m." and "3.50", and NLTK's punkt needs a download.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# The most characters of a piece, about 2,000 tokens. Longer texts without sentence ends are cut at white
# space or, if there is none, anywhere.
LONGEST = 10_000

_CLOSING = "\"'”’)\\]}»›」』）】"
_ENDS = re.compile(
    # Full stops that need no following space.
    rf"[。！？｡][。！？｡{_CLOSING}]*\s*"
    # Others, with closing quotes and brackets; "''" is the Penn Treebank's. The bounds keep the time linear.
    rf"|(?<![.!?…।۔؟])[.!?…।۔؟]++(?:\s?(?:''|[{_CLOSING}]){{1,4}}){{0,3}}(?:\s+|$)"
)
_OPENING = "\"'“‘`([{«‹「『（【¿¡-–— \t"
_LAST_WORD = re.compile(r"[^\W\d_]+(?:\.[^\W\d_]+)*\.$")
# More often followed by names or numbers than by a new sentence.
_ABBREVIATIONS = frozenset(
    "adm al approx art asst bros ca capt cf ch co col corp dept dr ed eds e.g eq esp est etc ex fig figs "
    "gen gov hon i.e inc jr lt ltd maj messrs mr mrs ms mt no nos op p pp pres prof rep rev sec sen sgt "
    "sr st supt u.s u.k v viz vol vols vs jan feb mar apr jun jul aug sep sept oct nov dec".split()
)


def split_sentences(text: str) -> list[str]:
    """Splits a text into sentences.

    A sentence ends at a full stop, question mark or exclamation mark (or several, with closing quotes or
    brackets), if white space follows, and then no lower-case letter. It does not end after an initial or an
    abbreviation such as "Dr.". A Chinese or Japanese full stop needs no white space.

    Args:
        text: any text.

    Returns:
        Pieces whose concatenation is the text. Each keeps the white space after it, and has at most
        `LONGEST` characters.
    """
    starts = [0, *(end.end() for end in _ENDS.finditer(text) if _is_end(text, end)), len(text)]
    pieces = []
    for i in range(len(starts) - 1):
        pieces.extend(_cut(text[starts[i] : starts[i + 1]]))
    return pieces


def _is_end(text: str, found: re.Match) -> bool:
    place = found.end()
    if place == len(text):
        return False
    mark = found[0][0]
    if mark in "。！？｡":
        return True
    follows = text[place : place + 20].lstrip(_OPENING)[:1]
    if follows.islower():
        return False
    if mark != "." or found[0][1:2] == ".":
        return True
    word = _LAST_WORD.search(text, max(0, found.start() - 20), found.start() + 1)
    if word is None:
        return True
    word = word[0][:-1]
    # A single capital other than "I" is an initial.
    is_initial = len(word) == 1 and word.isupper() and word != "I"
    return not is_initial and word.lower() not in _ABBREVIATIONS


def _cut(piece: str) -> Iterator[str]:
    while len(piece) > LONGEST:
        space = re.search(r"\s(?=\S*$)", piece[:LONGEST])
        end = space.end() if space else LONGEST
        yield piece[:end]
        piece = piece[end:]
    if piece:
        yield piece
