"""The model card of a pretrained model: the README.md of its directory.

Its head is YAML as Hugging Face's hub reads it (https://huggingface.co/docs/hub/model-cards).
"""

import math
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from huggingface_hub import EvalResult, ModelCardData

from bert_zoo.cards import Card
from bert_zoo.cli.report.markdown import grid, plain
from bert_zoo.cli.report.model_card import base_on_hub
from bert_zoo.cli.report.pretraining_page import TRAINING, recipe_of
from bert_zoo.cli.report.wording import duration, number, setting, words

if TYPE_CHECKING:
    from bert_zoo.models.task_model import Use

# YAML's comment: the licence is the user's to choose, and the base's and the texts' to allow.
LICENCE = "# license: name one that the licences of the base checkpoint and of the texts allow"


def write_pretraining_card(
    name: str,
    use: "Use",
    base: Card | None,
    config: Mapping[str, Any],
    results: Mapping[str, Any],
    path: str | PathLike,
    curve: str | None = None,
) -> None:
    """Writes the card of a run.

    Args:
        name: what was trained.
        use: what the model is for.
        base: of the checkpoint that it went on from; an empty one where nothing is known of that, None
            for a model that began from nothing.
        config, results: what `config.json` and `metrics.json` of the run hold.
        path: of the Markdown file.
        curve: the picture of the losses, beside it.
    """
    parts = (
        f"---\n{LICENCE}\n{_hub_data(name, use, base, results).to_yaml()}\n---",
        f"# {plain(name)}, pretrained",
        _summary(name, use, base),
        _losses(results),
        f"![Losses by step]({curve})" if curve else "",
        _text(config, results),
        _training(config, results),
        _limits(base, use),
    )
    card = "\n\n".join(part for part in parts if part) + "\n"
    Path(path).write_text(card, encoding="utf-8", errors="xmlcharrefreplace", newline="\n")


def _hub_data(
    name: str, use: "Use", base: Card | None, results: Mapping[str, Any]
) -> ModelCardData:
    hub = None if base is None else base_on_hub([name, *base.get("sources", ())])
    measured = [
        EvalResult(
            task_type=use.pipeline,
            dataset_type="text",
            dataset_name=what.removesuffix(" loss"),
            metric_type="loss",
            metric_value=round(value, 4),
        )
        for what, value in results["after"].items()
        if what.endswith((" out loss", " text loss")) and math.isfinite(value)
    ]
    return ModelCardData(
        base_model=hub,
        base_model_relation="finetune" if hub else None,
        library_name="bert_zoo",
        pipeline_tag=use.pipeline,
        tags=["bert_zoo", "keras", use.pipeline],
        metrics=["loss"] if measured else None,
        model_name=f"{name}, pretrained",
        eval_results=measured or None,
    )


def _summary(name: str, use: "Use", base: Card | None) -> str:
    began = "It began from nothing" if base is None else f"It went on from {plain(name)}"
    return (
        f"This model {use.purpose}. {began}, and was trained with bert_zoo on the texts below.\n\n"
        "```python\n"
        "import bert_zoo\n\n"
        'model = bert_zoo.load("path/to/this/directory")\n'
        f"{use.call}\n"
        "```"
    )


def _losses(results: Mapping[str, Any]) -> str:
    rows = [
        [what, number(results["before"][what]), number(after)]
        for what, after in results["after"].items()
    ]
    if results["unigram loss"] is not None:
        rows.append(["tokens by their frequency alone", "", number(results["unigram loss"])])
    if not rows:
        return "## Losses\n\nNo text was set aside, so that nothing was measured."
    table = grid(["", "before", "after"], rows)
    return f"## Losses\n\nIn nats a token, on text that was not trained on.\n\n{table}"


def _text(config: Mapping[str, Any], results: Mapping[str, Any]) -> str:
    shards, data = config["examples"], config["data"]
    total = {n: sum(shard[n] for shard in shards) for n in ("documents", "tokens")}
    facts = {
        **{words(n): setting(value) for n, value in data.items() if value is not None},
        **{n: f"{value:,}" for n, value in total.items()},
        "tokens trained on, with repetitions": f"{results['tokens']:,}",
        "SHA-256 of the documents": ", ".join(shard["text_sha256"] for shard in shards),
    }
    return f"## Text\n\n{grid(['', ''], facts.items())}"


def _training(config: Mapping[str, Any], results: Mapping[str, Any]) -> str:
    facts = {name: config[name] for name in TRAINING if name in config} | recipe_of(config)
    facts = {words(name): setting(value) for name, value in facts.items()}
    facts |= {
        "steps": f"{results['steps']:,}",
        "time": duration(results["seconds"]),
        "parameters": f"{results['parameters']:,}",
    }
    versions = ", ".join(f"{name} {version}" for name, version in config["versions"].items())
    table = grid(["setting", "value"], facts.items())
    return f"## Training\n\n{table}\n\nVersions: {plain(versions)}."


def _limits(base: Card | None, use: "Use") -> str:
    limits = [
        "The losses are of one run and of the texts named above: other sources, other times and other "
        "languages are not known.",
        "What the texts hold of errors, secrets and unfair words may be in it; it has not been "
        "examined for that.",
        *use.limits,
    ]
    if base is not None:
        licence = base.get("licence")
        limits.append(
            f"The licence of the checkpoint that it went on from is {plain(licence)}; it holds here too."
            if licence
            else "The licence of the checkpoint that it went on from is not known to bert_zoo."
        )
    return "## Limits\n\n" + "\n".join(f"- {limit}" for limit in limits)
