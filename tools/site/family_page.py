"""What the registry knows of a family, as Markdown: checkpoints, memory, scores, a card, an example.

`python tools/site/family_page.py NAME` prints it. It stands under docs/families/NAME.md, which says in
words what the paper is about and what differs from it here, where `make docs` builds the site.
"""

import sys
from collections.abc import Iterable, Mapping

import bert_zoo
from bert_zoo.family import Bundled, Checkpoint, Family
from bert_zoo.registry import registry

MILLION = 10**6
# The step whose memory the table gives.
ROWS, LENGTH = 32, 128


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
    yield "## Memory"
    yield (
        f"Weights in float32, and what a training step on {ROWS} rows of {LENGTH} tokens takes, "
        "estimated ([how](../memory.md))."
    )
    yield _table(
        ["load", "weights, MB", "float32, GiB", "mixed_bfloat16, GiB", "rematerialized too, GiB"],
        _memory_rows(family),
        numbers=(1, 2, 3, 4),
    )
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


def _memory_rows(family: Family) -> Iterable[list[str]]:
    for checkpoint in family.checkpoints:
        card = bert_zoo.describe(checkpoint.full_name, batch_size=ROWS, max_length=LENGTH)
        estimates = card["training_memory"]
        chosen = ("float32", "mixed_bfloat16", "mixed_bfloat16, rematerialized")
        yield [
            f"`{checkpoint.full_name}`",
            f"{4 * checkpoint.params / MILLION:,.0f}",
            *(str(estimates[setting]).partition(" ")[0] for setting in chosen),
        ]


def _in_a_cell(scores: Mapping[str, float | str]) -> str:
    return "<br>".join(f"{name}: {value}" for name, value in scores.items())


def _table(head: list[str], rows: Iterable[list[str]], numbers: tuple[int, ...] = ()) -> str:
    rule = ["---:" if column in numbers else "---" for column in range(len(head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


if __name__ == "__main__":
    print(family_page(registry().families[sys.argv[1]]))
