"""What there is to load: looks checkpoints up by name.

Nothing here imports TensorFlow or Keras, so that listing and describing stay instant.
"""

import difflib
import fnmatch
import functools
import re
import warnings
from collections.abc import Iterable
from typing import Any

from bert_zoo.families import FAMILIES
from bert_zoo.family import HF, Checkpoint, Family

# Hugging Face's identifiers (their list of licences for model cards). A licence that is qualified, or
# that its authors never declared, is "other" there, with the card's words as its name.
HUB_LICENCES = {
    "Apache-2.0": "apache-2.0",
    "MIT": "mit",
    "CC-BY-SA-4.0": "cc-by-sa-4.0",
    "CC-BY-NC-4.0 (not for commercial use)": "cc-by-nc-4.0",
}


class Registry:
    """Looks checkpoints up by name, tag, alias or former name."""

    def __init__(self, families: Iterable[Family]):
        self.families = {family.name: family for family in families}
        self._entries: dict[str, tuple[Family, Checkpoint]] = {}
        self._listed: list[list[str]] = []  # a checkpoint's names, its own first
        self._former: dict[str, str] = {}
        for family in self.families.values():
            for checkpoint in family.checkpoints:
                self._add(family, checkpoint)
        for name in self._former.keys() & self._entries.keys():
            raise ValueError(
                f"{name!r} is a former name of {self._former[name]} and a name in use; drop one."
            )

    def _add(self, family: Family, checkpoint: Checkpoint) -> None:
        is_default = checkpoint.name not in self._entries
        names = [checkpoint.name] if is_default else [checkpoint.full_name]
        names += checkpoint.aliases
        self._listed.append([*names])
        if checkpoint.tag and is_default:
            names.append(checkpoint.full_name)
        for name in names:
            if name in self._entries:
                raise ValueError(
                    f"The name {name!r} stands for {self._entries[name][1].full_name} already; "
                    f"give {checkpoint.full_name} of family {family.name} another one."
                )
            self._entries[name] = (family, checkpoint)
        self._former |= dict.fromkeys(checkpoint.formerly, checkpoint.full_name)

    def resolve(self, name: str) -> tuple[Family, Checkpoint]:
        """The family and checkpoint that a name, tag, alias or former name stands for.

        Raises:
            ValueError: no such name; the message gives the nearest ones.
        """
        if not isinstance(name, str):
            raise TypeError(
                f"A model's name is a string, such as 'bert_base_uncased'; got {name!r}."
            )
        if name in self._former:
            warnings.warn(
                f"{name!r} is now called {self._former[name]!r}; please use the new name.",
                DeprecationWarning,
                stacklevel=3,
            )
            name = self._former[name]
        if name not in self._entries:
            raise ValueError(self._unknown(name))
        return self._entries[name]

    def name_of_repository(self, repo: str) -> str | None:
        """The name of the checkpoint that comes from a Hugging Face repository, if one does.

        The oldest repositories are also known without their owner.
        """
        for _, checkpoint in self._entries.values():
            for source in checkpoint.sources:
                if isinstance(source, HF):
                    owner, _, bare = source.repo.casefold().partition("/")
                    if repo.casefold() in (f"{owner}/{bare}", bare):
                        return checkpoint.full_name
        return None

    def _unknown(self, name: str) -> str:
        spelled = name.strip().lower().replace("-", "_").replace("/", "_")
        begin_so = sorted((n for n in self._entries if n.startswith(spelled)), key=_natural_key)
        similar = difflib.get_close_matches(spelled, self._entries, n=3, cutoff=0)
        nearest = list(dict.fromkeys([*begin_so, *similar]))[:3]
        return (
            f"There is no model called {name!r}. The nearest names are "
            f"{', '.join(map(repr, nearest))}; bert_zoo.list_models() lists all of them. A local "
            "directory is given by its path, a Hugging Face repository as 'hf://org/repo'."
        )

    def names(
        self, pattern: str = "*", provides: str | None = None, aliases: bool = False
    ) -> list[str]:
        """See `list_models`."""
        known_tasks = {task for _, c in self._entries.values() for task in c.provides}
        if provides is not None and provides not in known_tasks:
            raise ValueError(
                f"No checkpoint provides {provides!r}; what they provide is "
                f"{', '.join(sorted(known_tasks))}."
            )
        found = []
        for names in self._listed:
            if provides is None or provides in self._entries[names[0]][1].provides:
                matching = fnmatch.filter(names, pattern)
                found += matching if aliases else matching[:1]
        return sorted(found, key=_natural_key)


def _natural_key(name: str) -> list[Any]:
    """Sorts bert_l2_h128 before bert_l10_h128."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


@functools.cache
def registry() -> Registry:
    """All families of this package."""
    return Registry(FAMILIES)


def list_models(
    pattern: str = "*", provides: str | None = None, *, aliases: bool = False
) -> list[str]:
    """Names that `load` takes, in natural order: one for each checkpoint.

    Args:
        pattern: a glob, such as "bert_*uncased*". A checkpoint whose own name does not match is listed
            by the first of its aliases that does.
        provides: keep checkpoints whose released files hold this task's head: "masked_lm",
            "pretraining", "classification", "embedding", ...
        aliases: whether every name of a checkpoint is listed that matches.

    Raises:
        ValueError: no checkpoint provides that task.
    """
    return registry().names(pattern, provides, aliases)


class Card(dict):
    """What is known of a checkpoint; a dict that prints as a readable page."""

    def __str__(self) -> str:
        width = max(map(len, self))
        return "\n".join(
            line
            for key, value in self.items()
            if value not in ("", [], {}, None)
            for line in _card_lines(key, value, width)
        )

    __repr__ = __str__


def _card_lines(key: str, value: Any, width: int) -> list[str]:
    if isinstance(value, dict):
        # A prompt ends in a blank.
        rows = [
            f"{n}: {item!r}" if key == "prompts" else f"{n}: {item}" for n, item in value.items()
        ]
    elif isinstance(value, list):
        rows = [str(item) for item in value]
    elif isinstance(value, int) and not isinstance(value, bool):
        rows = [f"{value:,}"]
    else:
        rows = [str(value)]
    return [f"{key if n == 0 else '':<{width}}  {row}" for n, row in enumerate(rows)]


def describe(name: str) -> Card:
    """The card of a checkpoint: family, sizes, parameters, licence, paper, sources, scores.

    Args:
        name: as `load` takes it.

    Raises:
        ValueError: no such name; the message gives the nearest ones.
    """
    family, checkpoint = registry().resolve(name)
    config = family.config(checkpoint)
    return Card(
        name=checkpoint.full_name,
        aliases=list(checkpoint.aliases),
        family=family.name,
        sizes=config.card(),
        activation=getattr(config, "activation", None),
        lowercase=checkpoint.text.lowercase,
        max_length=checkpoint.text.max_length,
        parameters=checkpoint.params,
        licence=checkpoint.licence,
        paper=checkpoint.paper,
        sources=[str(source) for source in checkpoint.sources],
        provides=sorted(checkpoint.provides),
        labels=list(checkpoint.labels),
        prompts=dict(checkpoint.prompts),
        scores=dict(checkpoint.scores),
        note=checkpoint.note,
    )
