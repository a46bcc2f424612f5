"""SentencePiece models: a check before the library reads them, and the families' additions. Without TensorFlow.

The library ends the process on damaged models: tensorflow_text 2.21 follows the table of normalisation
wherever its numbers point, and crashes on pieces that it cannot put into its own table.

Format: sentencepiece_model.proto; the table is an array of darts-clone (darts.h), as Normalizer's
PrecompileCharsMap writes it.
"""

import math
import unicodedata
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from bert_zoo.error_text import shown
from bert_zoo.protobuf import DecodeError, message_class
from bert_zoo.text.unicode_tables import UNICODE_SPACE, code_points

# The fields that are read of each message. Strings are read as bytes and enumerations as numbers, which have
# the same encoding.
_SCHEMA = {
    "Piece": ((1, "bytes", "text"), (2, "float", "score"), (3, "int32", "type")),
    "Normalizer": (
        *((2, "bytes", "rules"), (3, "bool=true", "begins_with_blank")),
        (4, "bool=true", "drops_blanks"),
    ),
    "Trainer": ((3, "int32", "kind"), (24, "bool", "ends_with_blank")),
    "Model": (
        *((1, "Piece*", "pieces"), (2, "Trainer", "trainer")),
        *((3, "Normalizer", "before"), (5, "Normalizer", "after")),
    ),
}
# SentencePiece.Type of the proto: NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED and BYTE.
NORMAL, UNKNOWN, CONTROL, USER, _TYPES = 1, 2, 3, 4, range(1, 7)
# TrainerSpec.ModelType; 0 where it is not set, which means a unigram model.
UNIGRAM, BPE = 1, 2

# Units of the table: a label in the low byte, the highest bit set in those with a value.
_LABEL, _VALUE = np.uint32(0x800000FF), np.uint32(0x7FFFFFFF)
_HAS_LEAF = np.uint32(1 << 8)
_UNIT_BYTES, _BLOCK_UNITS = 4, 256
_LONGEST_CHARACTER = 4  # bytes


def checked_sentencepiece_model(data: bytes):
    """Returns the model as from `read_sentencepiece_model`; ValueError for invalid pieces or rules."""
    model = read_sentencepiece_model(data)
    if not model.pieces:
        raise ValueError("there are no pieces in it.")
    for piece in model.pieces:
        text, score, kind = piece.text, piece.score, piece.type or NORMAL
        if not text or b"\0" in text or not math.isfinite(score) or kind not in _TYPES:
            raise ValueError(
                f"a piece is {shown(text)} with the score {score} and the type {kind}."
            )
    try:
        b" ".join(piece.text for piece in model.pieces).decode("utf-8")
    except UnicodeError:
        raise ValueError("not all of its pieces are UTF-8.") from None
    for normalizer in (model.before, model.after):
        if normalizer.rules:
            _check_rules(normalizer.rules)
    return model


def read_sentencepiece_model(data: bytes):
    """Reads a model, with the fields of `_SCHEMA`."""
    try:
        return message_class(_SCHEMA, "Model").FromString(data)
    except DecodeError:
        raise ValueError("they are not a protocol buffer.") from None


def made_sentencepiece_model(
    pieces: Iterable[tuple[str, float]], rules: bytes, *, unknown: str, control: Container[str]
) -> bytes:
    """A unigram model of pieces and scores, with rules of normalisation; pieces in `control` never match text."""
    model = message_class(_SCHEMA, "Model")()
    for text, score in pieces:
        kind = UNKNOWN if text == unknown else CONTROL if text in control else NORMAL
        model.pieces.add(text=text.encode(), score=score, type=kind)
    model.before.rules = rules
    return model.SerializeToString()


def character_rules(rules: bytes) -> dict[str, str]:
    """The replacements of single characters by a model's rules of normalisation, which are checked already."""
    if not rules:
        return {}
    units, written = _table(rules)
    found = {}
    for length, (keys, values) in zip(range(_LONGEST_CHARACTER + 1), _walk(units), strict=False):
        for key, begin in zip(keys.tolist(), values.tolist(), strict=True):
            text = key.to_bytes(length, "big").decode("utf-8", "ignore")
            if len(text) == 1:
                found[text] = written[begin : written.index(b"\0", begin)].decode()
    return found


def _table(rules: bytes) -> tuple[np.ndarray, bytes]:
    """The units of the table of byte strings, uint32, and the replacements after it, where its values point."""
    size = int.from_bytes(rules[:4], "little")
    if not size or size % (_UNIT_BYTES * _BLOCK_UNITS) or len(rules) < 4 + size:
        raise ValueError("its rules of normalisation have no complete table.")
    return np.frombuffer(rules, "<u4", size // _UNIT_BYTES, 4), rules[4 + size :]


def _check_rules(rules: bytes) -> None:
    units, replacements = _table(rules)
    values = np.concatenate([values for _, values in _walk(units)])
    try:
        replacements.decode("utf-8")
    except UnicodeError:
        raise ValueError("the replacements of its rules of normalisation are not UTF-8.") from None
    ends = np.frombuffer(b"\0" + replacements, np.uint8) == 0
    if not ends[-1] or values.max(initial=0) >= len(replacements) or not ends[values].all():
        raise ValueError("its rules of normalisation point outside their replacements.")


def _walk(units: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Walks through a table like the library: for each length of strings from 0, their last four bytes as big-endian
    uint32 and their values.
    """
    was_there = np.zeros(len(units), bool)
    positions, keys = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    labels = np.arange(256, dtype=np.uint32)
    while positions.size:
        was_there[positions] = True
        found = units[positions]
        children = positions ^ (found >> 10 << ((found & 0x200) >> 6))
        # All children of a unit are in one block.
        if children.max() >= len(units):
            raise ValueError("its rules of normalisation point outside their table.")
        has_leaf = (found & _HAS_LEAF) > 0
        yield keys[has_leaf], units[children[has_leaf]] & _VALUE
        positions = (children[:, None] ^ labels).ravel()
        is_child = (units[positions] & _LABEL) == np.tile(labels, len(children))
        keys = (keys[:, None] << 8 | labels).ravel()[is_child & ~was_there[positions]]
        positions, first = np.unique(positions[is_child & ~was_there[positions]], return_index=True)
        keys = keys[first]


# The tokenizer's options for reading texts as the SentencePiece library does.
PLAIN = {
    "lowercase": False,
    "remove_space": False,
    "keep_accents": True,
    "rewrite_quotes": False,
    "special_tokens_in_text": True,
    "hugging_face_rules": False,
    "compose": False,
    "blank_at_end": False,
}


@dataclass(frozen=True)
class Scheme:
    """A family's additions to a SentencePiece model. The tokens are `first_tokens`, then the model's pieces without the
    `replaced_pieces` that it begins with, then `last_tokens`.
    """

    name: str  # name of the family
    model_file: str
    tokenizer_class: str  # Hugging Face's class
    special_tokens: Mapping[str, str]  # role, a key of SPECIAL_TOKENS -> token
    replaced_pieces: tuple[str, ...] = ()
    first_tokens: tuple[str, ...] = ()
    last_tokens: tuple[str, ...] = ()
    splits_number_commas: bool = False  # whether "1," becomes "1" and ","
    # Whether a space comes before such digits inside a word.
    split_digits_begin_words: bool = False
    # Pattern of the pieces that begin a word for objectives. ALBERT's: only English letters continue a word
    # (create_pretraining_data.py).
    begins_word: str = r"▁.*|(?![A-Za-z]+$).*"
    # Characters that become spaces: U+0085, if Hugging Face's library does so unlike SentencePiece.
    spaces: str = ""
    # Those that the original program replaces, unlike Hugging Face's library.
    original_spaces: str = ""
    options: Mapping[str, bool] = field(default_factory=PLAIN.copy)  # defaults of the options


# Patterns of `SentencePieceTokenizer.serialized`. Characters are literal, as escapes differ between the
# languages that read the file.
WHITE_SPACE, THEIR_WHITE_SPACE = (
    f"[{''.join(map(chr, code_points(table)))}]+" for table in ("python/whitespace", UNICODE_SPACE)
)
COMBINING = "".join(c for c in map(chr, code_points("python/changed")) if unicodedata.combining(c))
COMBINING = f"[{COMBINING}]"
NEXT_LINE, NEWLINE = "\u0085", "\n"
# Means the same in Python, Rust and JavaScript, unlike ^ and $ or \A and \z.
BLANK_AT_END = r"(?<![\s\S]) | (?![\s\S])"


def scheme_tokens(pieces: list[str], scheme: Scheme) -> list[str]:
    """The tokens in the order of their ids; ValueError if the pieces belong to another family."""
    begins = pieces[: len(scheme.replaced_pieces)]
    if begins != list(scheme.replaced_pieces):
        raise ValueError(
            f"The SentencePiece model begins with the pieces {begins}, but {scheme.tokenizer_class} has "
            f"{list(scheme.replaced_pieces)} there. Check that it is the model of this family."
        )
    return [*scheme.first_tokens, *pieces[len(begins) :], *scheme.last_tokens]
