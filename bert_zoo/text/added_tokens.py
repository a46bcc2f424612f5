"""Added tokens, which texts are cut at before they are tokenized, as in Hugging Face's library; without TensorFlow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from bert_zoo.error_text import shown


@dataclass(frozen=True)
class AddedToken:
    """A token that is kept whole wherever it occurs in a text.

    The fields are those of Hugging Face's AddedToken and its files. Tokens that are not `normalized` are
    searched first, in the text as it is. The rest of the text is then normalised, and searched for the
    others, which are normalised too. At each position the longest token wins. Matches do not overlap.

    Attributes:
        content: the token's text.
        single_word: match only where no letter, digit or underscore is next to it.
        lstrip, rstrip: include the white space before it, or after it.
        normalized: search for it in normalised text.
        special: a special token, which may be left out when tokens are joined to text.
    """

    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False
    special: bool = False

    @classmethod
    def of(cls, token: AddedToken | str | Mapping[str, Any]) -> AddedToken:
        """Makes an added token from its content, from a dictionary of its fields, or from one itself.

        Raises:
            TypeError: another type, or an unknown field.
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
                f"The added token {shown(token)} must be a string, an AddedToken, or a dictionary with "
                f"'content' and any of {', '.join(sorted(names - {'content'}))}."
            )
        return cls(**given)

    def as_dict(self) -> dict[str, Any]:
        """Returns all fields, as Hugging Face's files store them, ready for JSON."""
        return asdict(self)

    def as_config(self) -> dict[str, Any] | str:
        """Returns an argument for `of`, ready for JSON: the content alone if all switches are off."""
        return self.content if self == AddedToken(self.content) else self.as_dict()


def distinct_tokens(
    tokens: Iterable[AddedToken | str | Mapping[str, Any]],
) -> dict[str, AddedToken]:
    """Added tokens by their content. A repeated token keeps its first place and its last settings."""
    return {token.content: token for token in map(AddedToken.of, tokens)}


def extended(vocabulary: Sequence[str], tokens: Iterable[Any]) -> list[str]:
    """The vocabulary, followed by the added tokens that it lacks, in their order."""
    known = {*vocabulary}
    return [*vocabulary, *(content for content in distinct_tokens(tokens) if content not in known)]
