"""Writes the generated part of a family's page: checkpoints, scores, checks and papers, as Markdown.

`python tools/site/family_page.py NAME` prints it; `make docs` appends it to the handwritten docs/families/NAME.md.
Comments below the handwritten page's title hold what tables say of the family (`facts`).
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from bert_zoo.family import Bundled, Checkpoint, Family, Package
from bert_zoo.registry import registry

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
MILLION = 10**6
# What readers do not see: <!-- good for: phones -->.
FACT = re.compile(r"^<!-- ([\w ]+): (.+) -->$", flags=re.MULTILINE)


def facts(name: str) -> dict[str, str]:
    """What a family's page says for tables.

    Returns:
        "title"; "good for"; "also", models that are known by other names, if any; and "reads", the longest
        input, where it is not a number of tokens.
    """
    page = (ROOT / "docs" / "families" / f"{name}.md").read_text(encoding="utf-8")
    title, _, rest = page.removeprefix("# ").partition("\n")
    return {"title": title, **dict(FACT.findall(rest))}


def family_page(family: Family) -> str:
    """The generated part of a family's page."""
    return "\n\n".join(("", *_sections(family))) + "\n"


def _sections(family: Family) -> Iterable[str]:
    tasks = f"Tasks that `load` takes: {', '.join(f'`{task}`' for task in sorted(family.tasks))}."
    yield from _checkpoints(family, tasks) if family.checkpoints else ("## Tasks", tasks)
    for title, here in (("Published scores", False), ("Scores of checkpoints trained here", True)):
        rows = [
            [f"`{checkpoint.full_name}`", _in_a_cell(checkpoint.scores)]
            for checkpoint in family.checkpoints
            if checkpoint.scores and is_offline(checkpoint, Bundled) == here
        ]
        if rows:
            yield f"## {title}"
            yield stacked(["checkpoint", "scores"], rows)
    yield "## How it is checked"
    yield _checks(family)
    papers = dict.fromkeys(checkpoint.paper for checkpoint in family.checkpoints)
    if papers:
        yield "## Papers"
        yield "\n".join(f"- {paper}" for paper in papers if "trained by this project" not in paper)


def _checkpoints(family: Family, tasks: str) -> Iterable[str]:
    yield "## Checkpoints"
    yield stacked(
        ["load", "parameters", "layers × width", "reads", "trained heads", "licence"],
        [_checkpoint_row(family, checkpoint) for checkpoint in family.checkpoints],
        numbers=(1, 2, 3),
    )
    names_by_note: dict[str, list[str]] = {}
    for checkpoint in family.checkpoints:
        names_by_note.setdefault(checkpoint.note, []).append(f"`{checkpoint.full_name}`")
    notes = [f"- {', '.join(names)}: {note}" for note, names in names_by_note.items() if note]
    if notes:
        yield "\n".join(notes)
    yield tasks
    first = family.checkpoints[0].full_name
    yield f'`bert_zoo.describe("{first}")` prints all sizes and sources.'


def _checks(family: Family) -> str:
    cases = sorted((GOLDEN / family.name).glob("*/io.npz"))
    with_gradients = [
        case for case in cases if any(n.startswith("gradient/") for n in np.load(case))
    ]
    models = "1 tiny model" if len(cases) == 1 else f"{len(cases)} tiny models"
    return (
        f"{models} with random weights: outputs equal those of {_reference(family.name)} within 1e-5"
        f"{f', and in {len(with_gradients)} of them gradients too' if with_gradients else ''} "
        "(`tests/test_conformance.py`). Of all released weights, only those of `minilm_l6` were compared in full "
        "([what is not done](../measured/not_done.md))."
    )


def _reference(name: str) -> str:
    """What made the reference outputs: transformers, if nothing else is said."""
    (file,) = (GOLDEN / name).glob("*cases.json")
    cases = json.loads(file.read_text(encoding="utf-8"))
    return cases.get("reference") or f"transformers {cases['made_with']['transformers']}"


def is_offline(checkpoint: Checkpoint, kinds: type | tuple[type, ...] = (Bundled, Package)) -> bool:
    """Whether its files come with this package or, by default, with another Python package."""
    return any(isinstance(source, kinds) for source in checkpoint.sources)


def _checkpoint_row(family: Family, checkpoint: Checkpoint) -> list[str]:
    sizes = family.config(checkpoint).card()
    heads = sorted(checkpoint.provides - {"encoder"}) or ["encoder only"]
    layers = f"{sizes.get('num_layers', 0)}"
    if "decoder_layers" in sizes:
        layers += f" + {sizes['decoder_layers']}"
    return [
        ", ".join(f"`{name}`" for name in (checkpoint.full_name, *checkpoint.aliases)),
        f"{checkpoint.params / MILLION:,.1f} M",
        f"{layers} × {sizes['hidden_size']:,}",
        reads(family.name, checkpoint),
        ", ".join(head.replace("_", " ") for head in heads),
        checkpoint.licence,
    ]


def reads(name: str, checkpoint: Checkpoint | None) -> str:
    """The longest input of a family's checkpoint; its page must say it if there is none."""
    return facts(name).get("reads") or f"{checkpoint.text.max_length:,} tokens"


def _in_a_cell(scores: Mapping[str, float | str]) -> str:
    return "<br>".join(f"{name}: {value}" for name, value in scores.items())


def stacked(head: list[str], rows: Iterable[list[str]], numbers: tuple[int, ...] = ()) -> str:
    """A table whose rows a phone shows as blocks (docs/site.css)."""
    return f'<div class="stacked" markdown="1">\n\n{table(head, rows, numbers)}\n\n</div>'


def table(head: list[str], rows: Iterable[list[str]], numbers: tuple[int, ...] = ()) -> str:
    """A table in Markdown; `numbers` are the columns that stand on the right."""
    rule = ["---:" if column in numbers else "---" for column in range(len(head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


if __name__ == "__main__":
    print(family_page(registry().families[sys.argv[1]]))
