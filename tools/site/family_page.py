"""What the registry knows of a family, as Markdown: checkpoints, scores, a card, an example.

`python tools/site/family_page.py NAME` prints it. It stands under docs/families/NAME.md, which says in
words what the paper is about and what differs from it here, where `make docs` builds the site.
"""

import sys
from collections.abc import Iterable, Mapping

import bert_zoo
from bert_zoo.family import Bundled, Checkpoint, Family
from bert_zoo.registry import registry

MILLION = 10**6


def family_page(family: Family) -> str:
    """The generated part of a family's page."""
    return "\n\n".join(("", *_sections(family))) + "\n"


def _sections(family: Family) -> Iterable[str]:
    first = family.checkpoints[0]
    yield "## Checkpoints"
    yield _table(
        ["load", "parameters, M", "layers", "width", "vocabulary", "provides", "licence"],
        [_checkpoint_row(family, checkpoint) for checkpoint in family.checkpoints],
        numbers=(1, 2, 3, 4),
    )
    names_by_note: dict[str, list[str]] = {}
    for checkpoint in family.checkpoints:
        names_by_note.setdefault(checkpoint.note, []).append(f"`{checkpoint.full_name}`")
    notes = (f"- {', '.join(names)}: {note}" for note, names in names_by_note.items() if note)
    yield "\n".join(notes)
    yield f"Tasks: {', '.join(f'`{task}`' for task in sorted(family.tasks))}."
    for title, here in (("Published scores", False), ("Scores of checkpoints trained here", True)):
        rows = [
            [f"`{checkpoint.full_name}`", _in_a_cell(checkpoint.scores)]
            for checkpoint in family.checkpoints
            if checkpoint.scores and _is_trained_here(checkpoint) == here
        ]
        if rows:
            yield f"## {title}"
            yield _table(["checkpoint", "scores"], rows)
    yield "## A card"
    yield (
        "```python\nimport bert_zoo\n\n"
        f'print(bert_zoo.describe("{first.full_name}"))\n```\n\n'
        f"```text\n{bert_zoo.describe(first.full_name)}\n```"
    )
    papers = dict.fromkeys(checkpoint.paper for checkpoint in family.checkpoints)
    yield "## Papers"
    yield "\n".join(f"- {paper}" for paper in papers if "trained by this project" not in paper)


def _is_trained_here(checkpoint: Checkpoint) -> bool:
    return any(isinstance(source, Bundled) for source in checkpoint.sources)


def _checkpoint_row(family: Family, checkpoint: Checkpoint) -> list[str]:
    sizes = family.config(checkpoint).card()
    provides = sorted(checkpoint.provides - {"encoder"}) or ["the encoder alone"]
    return [
        ", ".join(f"`{name}`" for name in (checkpoint.full_name, *checkpoint.aliases)),
        f"{checkpoint.params / MILLION:,.1f}",
        str(sizes["num_layers"]),
        f"{sizes['hidden_size']:,}",
        f"{sizes['vocab_size']:,}",
        ", ".join(provides),
        checkpoint.licence,
    ]


def _in_a_cell(scores: Mapping[str, float | str]) -> str:
    return "<br>".join(f"{name}: {value}" for name, value in scores.items())


def _table(head: list[str], rows: Iterable[list[str]], numbers: tuple[int, ...] = ()) -> str:
    rule = ["---:" if column in numbers else "---" for column in range(len(head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


if __name__ == "__main__":
    print(family_page(registry().families[sys.argv[1]]))
