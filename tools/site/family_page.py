"""Writes the generated part of a family's page: checkpoints, scores, checks and papers, as Markdown.

`python tools/site/family_page.py NAME` prints it; `make docs` appends it to the handwritten docs/families/NAME.md.
`index` instead of a name prints the rows of the table in docs/families/index.md, without the column "good for".
"""

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from bert_zoo.family import Bundled, Checkpoint, Family, Package
from bert_zoo.registry import registry

GOLDEN = Path(__file__).parents[2] / "tests" / "golden"
MILLION = 10**6
# The longest input of models for which it is not a number of tokens.
READS = {
    "awd_lstm": "any length",
    "elmo": "any length",
    "transformer_xl": "any length",
    "byt5": "1,024 bytes",
}


def family_page(family: Family) -> str:
    """The generated part of a family's page."""
    return "\n\n".join(("", *_sections(family))) + "\n"


def _sections(family: Family) -> Iterable[str]:
    first = family.checkpoints[0]
    yield "## Checkpoints"
    yield _table(
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
    yield f"Tasks that `load` takes: {', '.join(f'`{task}`' for task in sorted(family.tasks))}."
    yield f'`bert_zoo.describe("{first.full_name}")` prints all sizes and sources.'
    for title, here in (("Published scores", False), ("Scores of checkpoints trained here", True)):
        rows = [
            [f"`{checkpoint.full_name}`", _in_a_cell(checkpoint.scores)]
            for checkpoint in family.checkpoints
            if checkpoint.scores and _is_offline(checkpoint, Bundled) == here
        ]
        if rows:
            yield f"## {title}"
            yield _table(["checkpoint", "scores"], rows)
    yield "## How it is checked"
    yield _checks(family)
    papers = dict.fromkeys(checkpoint.paper for checkpoint in family.checkpoints)
    yield "## Papers"
    yield "\n".join(f"- {paper}" for paper in papers if "trained by this project" not in paper)


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


def _is_offline(
    checkpoint: Checkpoint, kinds: type | tuple[type, ...] = (Bundled, Package)
) -> bool:
    """Whether its files come with this package or, by default, with another Python package."""
    return any(isinstance(source, kinds) for source in checkpoint.sources)


def _checkpoint_row(family: Family, checkpoint: Checkpoint) -> list[str]:
    sizes = family.config(checkpoint).card()
    heads = sorted(checkpoint.provides - {"encoder"}) or ["encoder only"]
    layers = f"{sizes['num_layers']}"
    if "decoder_layers" in sizes:
        layers += f" + {sizes['decoder_layers']}"
    return [
        ", ".join(f"`{name}`" for name in (checkpoint.full_name, *checkpoint.aliases)),
        f"{checkpoint.params / MILLION:,.1f} M",
        f"{layers} × {sizes['hidden_size']:,}",
        READS.get(family.name) or _tokens(checkpoint),
        ", ".join(head.replace("_", " ") for head in heads),
        checkpoint.licence,
    ]


def _tokens(checkpoint: Checkpoint) -> str:
    longest = checkpoint.text.max_length
    return f"{longest:,} tokens" if longest < MILLION else "any length"


def index_rows() -> dict[str, list[str]]:
    """Family -> cells of its row in the table of families: parameters, reads, offline, licence."""
    return {name: _index_row(family) for name, family in registry().families.items()}


def _index_row(family: Family) -> list[str]:
    released = [c for c in family.checkpoints if not _is_offline(c, Bundled)]
    sizes = sorted(c.params for c in released)
    longest = max(released, key=lambda c: c.text.max_length)
    offline = [f"`{c.full_name}`" for c in family.checkpoints if _is_offline(c)]
    licences = dict.fromkeys(_short(c.licence) for c in released)
    return [
        " to ".join(dict.fromkeys((_size(sizes[0]), _size(sizes[-1])))),
        READS.get(family.name) or _tokens(longest),
        ", ".join(offline),
        ", ".join(licences),
    ]


def _size(params: int) -> str:
    millions = params / MILLION
    return f"{millions:.0f} M" if millions < 1000 else f"{millions / 1000:.1f} B"


def _short(licence: str) -> str:
    name = licence.partition(" (")[0]
    if "not for commercial" in licence:
        return f"{name} (not commercial)"
    return "some unknown" if name.startswith(("not declared", "unknown")) else name


def _in_a_cell(scores: Mapping[str, float | str]) -> str:
    return "<br>".join(f"{name}: {value}" for name, value in scores.items())


def _table(head: list[str], rows: Iterable[list[str]], numbers: tuple[int, ...] = ()) -> str:
    """A table whose rows a phone shows as blocks (docs/site.css)."""
    rule = ["---:" if column in numbers else "---" for column in range(len(head))]
    table = "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))
    return f'<div class="stacked" markdown="1">\n\n{table}\n\n</div>'


if __name__ == "__main__":
    if sys.argv[1] == "index":
        for name, cells in index_rows().items():
            print(f"| [{name}]({name}.md) | {' | '.join(cells)} |")
    else:
        print(family_page(registry().families[sys.argv[1]]))
