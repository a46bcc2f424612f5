"""Looks up the checkpoints that can be loaded.

Nothing here imports TensorFlow or Keras, so listing and describing are instant.
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

# Licence -> Hugging Face's identifier for model cards. A licence with conditions or one that its
# authors never declared is "other" there, and our words become its name.
HUB_LICENCES = {
    "Apache-2.0": "apache-2.0",
    "MIT": "mit",
    "CC-BY-SA-4.0": "cc-by-sa-4.0",
    "CC-BY-NC-SA-4.0 (not for commercial use)": "cc-by-nc-sa-4.0",
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
                    f"The name {name!r} already belongs to {self._entries[name][1].full_name}; "
                    f"give {checkpoint.full_name} of family {family.name} another name."
                )
            self._entries[name] = (family, checkpoint)
        self._former |= dict.fromkeys(checkpoint.formerly, checkpoint.full_name)

    def resolve(self, name: str) -> tuple[Family, Checkpoint]:
        """The family and checkpoint with a name, tag, alias or former name; ValueError suggests the nearest ones."""
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
        """The name of the checkpoint from a Hugging Face repository, or None.

        The oldest repositories are also found without their owner.
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
        begin_so = sorted(
            (n for n in self._entries if n.startswith(spelled)),
            key=lambda n: _natural_key(n.replace("-", "_")),
        )
        similar = difflib.get_close_matches(spelled, self._entries, n=3, cutoff=0)
        nearest = list(dict.fromkeys([*begin_so, *similar]))[:3]
        return (
            f"There is no model called {name!r}. The nearest names are "
            f"{', '.join(map(repr, nearest))}; bert_zoo.list_models() lists all of them. For a local "
            "directory, pass its path; for a Hugging Face repository, 'hf://org/repo'."
        )

    def names(
        self, pattern: str = "*", provides: str | None = None, aliases: bool = False
    ) -> list[str]:
        """See `list_models`."""
        known_tasks = {task for _, c in self._entries.values() for task in c.provides}
        if provides is not None and provides not in known_tasks:
            raise ValueError(
                f"No checkpoint provides {provides!r}; choose one of {', '.join(sorted(known_tasks))}."
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
    """Lists the names that `load` accepts, one for each checkpoint.

    Args:
        pattern: a glob, such as "bert_*uncased*". If a checkpoint's own name does not match, its first
            matching alias is listed.
        provides: list only checkpoints whose files contain the head for this task: "masked_lm",
            "pretraining", "classification", "embedding", ...
        aliases: whether to list all matching names of a checkpoint.

    Returns:
        The names, sorted with numbers by value: bert_l2_h128 comes before bert_l10_h128.

    Raises:
        ValueError: no checkpoint provides that task.
    """
    return registry().names(pattern, provides, aliases)


class Card(dict):
    """The facts about a checkpoint: a dict that prints as a table."""

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
        # repr, because prompts end in a space.
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
    """Returns the card of a checkpoint: family, sizes, parameters, licence, paper, sources and scores.

    Args:
        name: a name from `list_models(aliases=True)`, or from an earlier version of bert_zoo.

    Returns:
        A dict that prints as a table.

    Raises:
        ValueError: the name is unknown; the message suggests the nearest ones.
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
