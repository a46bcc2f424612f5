"""The page of a pretraining: what it changed, on held-out text and behind masks."""

from collections.abc import Mapping, Sequence
from html import escape
from os import PathLike
from typing import Any

from bert_zoo.cli.report.curves import line_chart
from bert_zoo.cli.report.page import fact_table, grid, head, number_cell, section, write_page
from bert_zoo.cli.report.wording import duration, number, setting, words

# What is shown of a run, where its kind of training has it; and of the fields of its recipe.
TRAINING = ("objective", "rows", "phases", "memory", "cutoffs", "dtype", "seed")
SETTINGS = (
    *("total_steps", "batch_size", "gradient_accumulation_steps", "optimizer", "learning_rate"),
    *(
        "schedule",
        "warmup_proportion",
        "warmup_steps",
        "floor",
        "weight_decay",
        "decay_all",
        "betas",
    ),
    *("epsilon", "bias_correction", "clip_norm", "steps_per_execution", "dtype"),
)


def recipe_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a run's recipe that hold for it, by name: of a budget of time, the budget for the steps."""
    recipe = {name: config["recipe"][name] for name in SETTINGS if name in config["recipe"]}
    if config["seconds"]:
        recipe = {"budget of time": duration(config["seconds"])} | recipe
        recipe.pop("total_steps", None)
    return recipe


def write_pretraining_page(
    name: str, config: Mapping[str, Any], results: Mapping[str, Any], path: str | PathLike
) -> None:
    """Writes the page of a run.

    Args:
        name: what was trained.
        config, results: what `config.json` and `metrics.json` of the run hold.
        path: of the HTML file, in a directory that exists.
    """
    parts = (
        f"<header><h1>{escape(name)} <span>pretrained</span></h1></header>",
        _tiles(results),
        _losses(results),
        _sentences(results["sentences"]),
        _facts(config, results),
    )
    write_page(f"{name}, pretrained", parts, path)


def _tiles(results: Mapping[str, Any]) -> str:
    tiles = [
        (number(after), f"{name} (before: {number(results['before'][name])})")
        for name, after in results["after"].items()
        if name.endswith((" out loss", " text loss"))
    ]
    if speed := results["tokens_per_second"]:
        tiles.append((f"{speed:,.0f}", "tokens a second"))
    tiles.append((duration(results["seconds"]), f"{results['steps']:,} steps"))
    shown = (
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>'
        for value, name in tiles
    )
    return f'<div class="tiles">{"".join(shown)}</div>'


def _losses(results: Mapping[str, Any]) -> str:
    rows, before = results["measured"], results["before"]
    names = [name for name in rows[-1] if name.endswith(" loss")]
    charts = []
    for name in names:
        by_step = {0: before[name]} | {row["step"]: row[name] for row in rows if name in row}
        at, values = [*by_step], [*by_step.values()]
        if len(at) > 1 and (chart := line_chart(values, name, at[-1], at=at, unit="step")):
            charts.append(f"<div><h3>{escape(name)}<b>{number(values[-1])}</b></h3>{chart}</div>")
    columns = ["loss", *names, "rate"]
    lines = [_line("before", before, columns)]
    lines += [_line(f"{row['step']:,}", row, columns) for row in rows]
    if results["unigram loss"] is not None:
        several = "held out mlm_logits_loss"
        unigram = {several if several in before else "held out loss": results["unigram loss"]}
        lines.append(_line("tokens by their frequency alone", unigram, columns))
    heads = head("step") + "".join(head(name, "number") for name in columns)
    return section("Losses", f'<div class="charts">{"".join(charts)}</div>{grid(heads, lines)}')


def _line(title: str, row: Mapping[str, float], columns: Sequence[str]) -> str:
    shown = {"rate": "{:.3g}".format}
    cells = (shown.get(name, number)(row[name]) if name in row else "" for name in columns)
    return f"<tr><th>{escape(title)}</th>{''.join(map(number_cell, cells))}</tr>"


def _sentences(sentences: Sequence[Mapping[str, Any]]) -> str:
    if not sentences:
        return ""

    def answers(found: Sequence[Sequence[Any]]) -> str:
        return "<br>".join(f"{escape(token)} {score:.2f}" for token, score in found)

    lines = [
        f'<tr><td dir="auto">{escape(s["text"])}</td><td>{escape(s["word"])}</td>'
        f"<td>{answers(s['before'])}</td><td>{answers(s['after'])}</td></tr>"
        for s in sentences
    ]
    heads = "".join(map(head, ("held-out sentence", "word", "before", "after")))
    return section("Behind masks", grid(heads, lines))


def _facts(config: Mapping[str, Any], results: Mapping[str, Any]) -> str:
    training = {name: config[name] for name in TRAINING if name in config}
    training |= {"tokens": f"{results['tokens']:,}", "parameters": f"{results['parameters']:,}"}
    recipe = recipe_of(config)
    groups = {"Training": training, "Recipe": recipe, "Text": config["data"]}
    tables = "".join(
        f"<div><h3>{title}</h3>"
        f"{fact_table({words(n): escape(setting(v)) for n, v in facts.items()})}</div>"
        for title, facts in groups.items()
    )
    return section("What went in", f'<div class="facts">{tables}</div>')
