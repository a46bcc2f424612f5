"""A vocabulary: tokens in the order of their ids."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bert_zoo.error_text import shown

# Options of tokenizers -> their names in Hugging Face's files.
HF_SPECIAL_TOKENS = {
    "unknown_token": "unk_token",
    "padding_token": "pad_token",
    "cls_token": "cls_token",
    "sep_token": "sep_token",
    "mask_token": "mask_token",
}


def special_tokens(*tokens: str | None) -> dict[str, str | None]:
    """The unknown, padding, class, separator and mask token by the names of the options."""
    return dict(zip(HF_SPECIAL_TOKENS, tokens, strict=True))


# The prefix of WordPiece's continuation pieces.
SUFFIX = "##"


class Vocabulary:
    """Checked tokens and their ids.

    A plain object on purpose: tf.Module tracks the items of a tuple or dict one by one, and would take
    seconds to save a model with 30,000 tokens.

    Raises:
        ValueError: no tokens, an empty or a repeated token.
        TypeError: a token that is not a string.
    """

    def __init__(self, tokens: Sequence[str]):
        self.tokens = tuple(tokens)
        if not self.tokens:
            raise ValueError(
                "The vocabulary is empty. Pass the tokens in the order of their ids, such as the lines "
                "of BERT's vocab.txt."
            )
        self._ids: dict[str, int] = {}
        for index, token in enumerate(self.tokens):
            if not isinstance(token, str):
                raise TypeError(
                    f"vocabulary[{index}] is {shown(token)} ({type(token).__name__}); tokens must be strings."
                )
            if not token:
                raise ValueError(
                    f"vocabulary[{index}] is the empty string, which no text can match. An empty "
                    "line in vocab.txt usually means a damaged file."
                )
            if token in self._ids:
                raise ValueError(
                    f"The vocabulary has {shown(token)} twice, as ids {self._ids[token]} and {index}. "
                    "Every token needs one id. Remove or rename one of the two."
                )
            self._ids[token] = index
        try:
            "".join(self.tokens).encode("utf-8")
        except UnicodeEncodeError as error:
            raise ValueError(
                f"A token of the vocabulary has a lone surrogate, {error.object[error.start]!a}, "
                "which UTF-8 cannot encode. Fetch the vocabulary again."
            ) from error

    @property
    def ids(self) -> dict[str, int]:
        """Token -> id, in the order of the ids."""
        return dict(self._ids)

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, token: str) -> bool:
        return token in self._ids

    def id_of(self, token: str, role: str = "token") -> int:
        """A token's id; a ValueError that names its role if the vocabulary lacks it."""
        if token not in self._ids:
            raise ValueError(
                f"The vocabulary of {len(self)} tokens lacks the {role} {shown(token)}. It begins with "
                f"{shown(list(self.tokens[:5]))}. Check that it is the right vocabulary, or name the token "
                "that it uses instead."
            )
        return self._ids[token]

    def token_of(self, index: int) -> str:
        """The token of an id; ValueError for an id outside [0, size)."""
        if not 0 <= index < len(self):
            raise ValueError(f"id {index} is outside the vocabulary; ids are 0 to {len(self) - 1}.")
        return self.tokens[index]


def is_byte(token: str) -> bool:
    return re.fullmatch("0|[1-9][0-9]{0,2}", token) is not None and int(token) < 256


def character_as_line(token: str) -> str:
    if len(token) == 1 and (token.isspace() or not token.isprintable()):
        return f"U+{ord(token):04X}"
    if line_as_character(token) != token:
        raise ValueError(
            f"The special token {token!r} is the spelling of {line_as_character(token)!r} in vocab.txt. "
            "Rename it."
        )
    return token


def line_as_character(line: str) -> str:
    match = re.fullmatch("U[+]([0-9A-F]{4,6})", line)
    code = int(match[1], 16) if match else -1
    is_character = 0 <= code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF
    return chr(code) if is_character else line
