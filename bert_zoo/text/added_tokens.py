"""Added tokens: what texts are cut at before they are tokenized, as Hugging Face's library has them; without TensorFlow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from bert_zoo.error_text import shown


@dataclass(frozen=True)
class AddedToken:
    """A token that a text is cut at, wherever it stands, and that is one token there.

    The fields are those of Hugging Face's AddedToken and of the entries in its files. Tokens that are not
    `normalized` are found first, in the text as it is; the others then in what stands between those, once it
    is normalised, and are normalised for that themselves. At each place the longest token counts, and a
    token begins where the one before it ends.

    Attributes:
        content: the token.
        single_word: it counts only where no letter, digit or underscore stands beside it.
        lstrip, rstrip: it takes the white space before it, or after it.
        normalized: it is found in normalised text.
        special: it is no text: readers may leave it out where they join tokens.
    """

    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False
    special: bool = False

    @classmethod
    def of(cls, token: AddedToken | str | Mapping[str, Any]) -> AddedToken:
        """The token of what a configuration has: its content alone where all switches are off.

        Raises:
            TypeError: something else, or a field that there is not.
        """
        if isinstance(token, cls):
            return token
        given = {"content": token} if isinstance(token, str) else token
        names = {field.name for field in fields(cls)}
        if (
            not isinstance(given, Mapping)
            or not names >= given.keys()
            or not isinstance(given.get("content"), str)
        ):
            raise TypeError(
                f"The added token {shown(token)} is no string, AddedToken or dictionary with "
                f"'content' and some of {', '.join(sorted(names - {'content'}))}."
            )
        return cls(**given)

    def as_dict(self) -> dict[str, Any]:
        """The entry that Hugging Face's files have of the token, ready for JSON."""
        return asdict(self)

    def as_config(self) -> dict[str, Any] | str:
        """What `of` takes, ready for JSON."""
        return self.content if self == AddedToken(self.content) else self.as_dict()


def distinct_tokens(
    tokens: Iterable[AddedToken | str | Mapping[str, Any]],
) -> dict[str, AddedToken]:
    """Added tokens by their content; of one that comes twice the last counts, at its first place."""
    return {token.content: token for token in map(AddedToken.of, tokens)}


def extended(vocabulary: Sequence[str], tokens: Iterable[Any]) -> list[str]:
    """The vocabulary, and after it those of the added tokens that it lacks, in their order."""
    known = {*vocabulary}
    return [*vocabulary, *(content for content in distinct_tokens(tokens) if content not in known)]
