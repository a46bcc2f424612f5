"""The model card of a fine-tuned model: the README.md of its directory.

Its head is YAML as Hugging Face's hub reads it (https://huggingface.co/docs/hub/model-cards).
"""

import math
import re
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from bert_zoo.cards import HUB_LICENCES
from bert_zoo.cli.report.markdown import grid, plain
from bert_zoo.cli.report.record import RunRecord
from bert_zoo.cli.report.wording import duration, number, setting, with_paper_links, words

# A metric -> its name on Hugging Face's hub; metrics that are not there stay in the text.
HUB_METRICS = {
    **{name: name for name in ("accuracy", "f1", "precision", "recall", "matthews_correlation")},
    "exact": "exact_match",
    "exact_match": "exact_match",
    "pearson": "pearsonr",
    "spearman": "spearmanr",
}
HUB_SOURCE = re.compile(r"hf://([^@\s]+)")
MOST_LABELS = 100


def write_model_card(record: RunRecord, path: str | PathLike) -> None:
    """Writes the model card of a run as a Markdown file: README.md of the model's directory."""
    parts = (
        f"---\n{_hub_data(record).to_yaml()}\n---",
        f"# {plain(record.model)}, fine-tuned on {plain(record.task)}",
        f"> **⚠ {plain(record.licence_warning)}**" if record.licence_warning else "",
        _summary(record),
        _scores(record),
        _use(record),
        _limits(record),
        _training(record),
        _base(record),
    )
    card = "\n\n".join(part for part in parts if part) + "\n"
    Path(path).write_text(card, encoding="utf-8", errors="xmlcharrefreplace", newline="\n")


# --- The head that programs read ---


def _hub_data(record: RunRecord) -> ModelCardData:
    pipeline = record.use.pipeline
    results = [
        EvalResult(
            task_type=pipeline,
            dataset_type=record.task,
            dataset_name=record.task,
            dataset_split=record.measured_on,
            metric_type=HUB_METRICS[name],
            metric_value=round(float(value), 4),
        )
        for name, value in record.kept.items()
        if name in HUB_METRICS and math.isfinite(value)
    ]
    base = base_on_hub([record.model, *record.checkpoint.get("sources", ())])
    # What the base's licence asks holds for what is trained from it.
    hub_licence = HUB_LICENCES.get(record.licence, "other" if record.licence else "unknown")
    return ModelCardData(
        license=hub_licence,
        license_name=record.licence if hub_licence == "other" else None,
        base_model=base,
        base_model_relation="finetune" if base else None,
        library_name="bert_zoo",
        pipeline_tag=pipeline,
        tags=["bert_zoo", "keras", pipeline],
        metrics=[result.metric_type for result in results] or None,
        model_name=f"{record.model} on {record.task}",
        eval_results=results or None,
    )


def base_on_hub(sources: Iterable[str]) -> str | None:
    """The first place on the hub; None where there is none, for another place may be someone else's."""
    return next((found[1] for source in sources if (found := HUB_SOURCE.match(source))), None)


# --- What people read ---


def _summary(record: RunRecord) -> str:
    texts = '(["A text."], ["Its partner."])' if record.reads_pairs else '["A text."]'
    return (
        f"This model {record.use.purpose}. It is {plain(record.model)}, fine-tuned with bert_zoo.\n\n"
        "```python\n"
        "import bert_zoo\n\n"
        'model = bert_zoo.load("path/to/this/directory")\n'
        f"print({record.use.call.format(texts=texts)})\n"
        "```"
    )


def _scores(record: RunRecord) -> str:
    scores = grid(
        ["metric", f"{record.measured_on}, {record.num_measured:,} examples"],
        [[record.named(name), number(value)] for name, value in record.kept.items()],
    )
    if record.baseline:
        beaten = ", ".join(f"{words(n)} {number(v)}" for n, v in record.baseline.items())
        scores += f"\n\nWithout reading, {plain(record.baseline_answer)}: {plain(beaten)}."
    parts = [
        "## Scores",
        f"Of the weights in this directory, which are those after epoch {record.kept_epoch} of "
        f"{len(record.epochs)}.",
        scores,
        plain(record.caution),
    ]
    if columns := record.table_columns:
        rows = [[_cell(row.get(name)) for name in columns] for row in record.table]
        parts += [f"By {plain(words(columns[0]))}:", grid(list(map(words, columns)), rows)]
    return "\n\n".join(part for part in parts if part)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else number(value)


def _use(record: RunRecord) -> str:
    lines = [
        "## Intended use",
        f'It {record.use.purpose}, for texts like those that it was trained on; see "Training".',
    ]
    if record.labels:
        shown = ", ".join(plain(str(label)) for label in record.labels[:MOST_LABELS])
        more = len(record.labels) - MOST_LABELS
        rest = f", and {more:,} more, which `config.json` lists" if more > 0 else ""
        lines.append(f"Its {len(record.labels):,} labels: {shown}{rest}.")
    return "\n\n".join(lines)


def _limits(record: RunRecord) -> str:
    limits = [
        f"It has been measured on the {plain(record.measured_on)} examples named above and on nothing "
        "else: other sources, other times and other languages are not known.",
        f"The scores are of one training run, with seed {record.seed}; other seeds give others.",
        "It has not been examined for unfair treatment of people or groups, and what its "
        "pretraining texts and its training data hold of that may be in it.",
    ]
    if length := record.recipe.get("max_length"):
        limits.append(record.use.long_texts.format(length=length))
    limits += record.use.limits
    if record.checkpoint.get("lowercase"):
        limits.append("It reads all texts in lower case.")
    return "## Limits\n\n" + "\n".join(f"- {limit}" for limit in limits)


def _training(record: RunRecord) -> str:
    facts = {
        "training examples": f"{record.num_train:,}",
        "steps": f"{record.steps:,}",
        "time": duration(record.seconds),
        "parameters": f"{record.parameters:,}",
        "trained parameters": f"{record.trainable_parameters:,}",
        "seed": str(record.seed),
        **{words(name): setting(value) for name, value in record.recipe.items()},
    }
    epochs = [
        [f"{epoch} (kept)" if epoch == record.kept_epoch else str(epoch), *map(number, values)]
        for epoch, values in record.by_epoch()
    ]
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    return "\n\n".join(
        [
            "## Training",
            plain(record.data),
            grid(["setting", "value"], facts.items()),
            "After each epoch:",
            grid(["epoch", "training loss", *map(record.named, record.kept)], epochs),
            f"Versions: {plain(versions)}.",
        ]
    )


def _base(record: RunRecord) -> str:
    card = record.checkpoint
    if not card:
        return (
            "## Base checkpoint and licence\n\n"
            f"{plain(record.model)}. Its licence is not known to bert_zoo: find it out before you "
            "pass this model on."
        )
    lines = [
        f"- Checkpoint: {plain(card.get('name', record.model))} "
        f"({plain(card.get('family', 'family unknown'))})",
        f"- **Licence: {plain(record.licence or 'not known')}**. It holds for this model too, "
        "beside what the training data asks.",
    ]
    if card.get("paper"):
        lines.append(f"- Paper: {with_paper_links(plain(card['paper']), '[{0}]({1})'.format)}")
    if card.get("note"):
        lines.append(f"- {plain(card['note'])}")
    return "## Base checkpoint and licence\n\n" + "\n".join(lines)
