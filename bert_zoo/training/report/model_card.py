"""The model card of a fine-tuned model: the README.md of its directory.

Its head is YAML as Hugging Face's hub reads it (https://huggingface.co/docs/hub/model-cards).
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from bert_zoo.training.report import licence
from bert_zoo.training.report.record import RunRecord
from bert_zoo.training.report.wording import duration, figure, setting, with_paper_links, words


class Use(NamedTuple):
    """What a kind of model is for.

    Attributes:
        pipeline: Hugging Face's name of the task.
        purpose: what it does, after "This model".
        call: how it is called, after it is loaded, with a place for `texts`.
    """

    pipeline: str
    purpose: str
    call: str


USES = {
    "classification": Use(
        "text-classification", "gives a text one of its labels", "model.classify({texts})"
    ),
    "multi_label_classification": Use(
        "text-classification",
        "gives a text each of its labels that applies, or none",
        "model.classify({texts})",
    ),
    "regression": Use("text-classification", "gives a text a score", "model.predict({texts})"),
    "token_classification": Use(
        "token-classification", "gives each word of a text a tag", "model.tag({texts})"
    ),
    "question_answering": Use(
        "question-answering",
        "finds the answer to a question in a text that is given with it",
        'model.answer("A question?", "The text that answers it.")',
    ),
    "multiple_choice": Use(
        "multiple-choice",
        "chooses the text that goes best with another",
        'model.predict((["A prompt."], [["One choice.", "Another."]]))',
    ),
}

# A figure -> the metric's name on Hugging Face's hub; figures that are not there stay in the text.
HUB_METRICS = {
    "accuracy": "accuracy",
    "f1": "f1",
    "precision": "precision",
    "recall": "recall",
    "exact": "exact_match",
    "exact_match": "exact_match",
    "matthews_correlation": "matthews_correlation",
    "pearson": "pearsonr",
    "spearman": "spearmanr",
}
HUB_SOURCE = re.compile(r"hf://([^@\s]+)")
MARKDOWN = re.compile(r"([\\`*\[\]|#])")
MOST_LABELS = 100


def write_model_card(record: RunRecord, path: str | PathLike) -> None:
    """Writes the model card of a run.

    Args:
        record: of the run.
        path: of the Markdown file, README.md of the model's directory, which exists.
    """
    Path(path).write_text(card(record), encoding="utf-8", errors="xmlcharrefreplace", newline="\n")


def card(record: RunRecord) -> str:
    """The card as text."""
    parts = (
        _front_matter(record),
        f"# {_text(record.model)}, fine-tuned on {_text(record.task)}",
        _licence_warning(record),
        _summary(record),
        _scores(record),
        _use(record),
        _limits(record),
        _training(record),
        _base(record),
    )
    return "\n\n".join(part for part in parts if part) + "\n"


# --- The head that programs read ---


def _front_matter(record: RunRecord) -> str:
    measured = {
        HUB_METRICS[name]: value
        for name, value in record.kept.items()
        if name in HUB_METRICS and math.isfinite(value)
    }
    use = USES[record.kind]
    lines = [
        *_licence_fields(record),
        *_base_fields(record),
        "library_name: bert_zoo",
        f"pipeline_tag: {use.pipeline}",
        *_listed("tags", ["bert_zoo", "keras", use.pipeline]),
        *_listed("metrics", measured),
        *_results(record, measured),
    ]
    return "\n".join(["---", *lines, "---"])


def _licence_fields(record: RunRecord) -> list[str]:
    """Of the base; what its licence asks holds for what is trained from it."""
    if record.checkpoint is None or not record.checkpoint.get("licence"):
        return ["license: unknown"]
    name = record.checkpoint["licence"]
    if name in licence.HUB_LICENCES:
        return [f"license: {licence.HUB_LICENCES[name]}"]
    return ["license: other", f"license_name: {_quoted(name)}"]


def _base_fields(record: RunRecord) -> list[str]:
    """The base's place on the hub; none where it has none, for another place may be someone else's."""
    sources = [record.model, *(record.checkpoint or {}).get("sources", [])]
    places = [found[1] for source in sources if (found := HUB_SOURCE.match(source))]
    if not places:
        return []
    return [f"base_model: {_quoted(places[0])}", "base_model_relation: finetune"]


def _listed(name: str, values: Iterable[str]) -> list[str]:
    items = [f"- {value}" for value in values]
    return [f"{name}:", *items] if items else []


def _results(record: RunRecord, measured: Mapping[str, float]) -> list[str]:
    if not measured:
        return []
    return [
        "model-index:",
        f"- name: {_quoted(f'{record.model} on {record.task}')}",
        "  results:",
        "  - task:",
        f"      type: {USES[record.kind].pipeline}",
        "    dataset:",
        f"      type: {_quoted(record.task)}",
        f"      name: {_quoted(record.task)}",
        f"      split: {_quoted(record.measured_on)}",
        "    metrics:",
        *(
            line
            for name, value in measured.items()
            for line in (f"    - type: {name}", f"      value: {round(float(value), 4)}")
        ),
    ]


def _quoted(value: str) -> str:
    """A YAML string; JSON's strings are YAML's."""
    return json.dumps(value, ensure_ascii=False)


# --- What people read ---


def _licence_warning(record: RunRecord) -> str:
    name = (record.checkpoint or {}).get("licence", "")
    if not licence.forbids_commerce(name):
        return ""
    return f"> **⚠ {_text(licence.warning(record.model, name))}**"


def _summary(record: RunRecord) -> str:
    use = USES[record.kind]
    texts = '(["A text."], ["Its partner."])' if record.reads_pairs else '["A text."]'
    return (
        f"This model {use.purpose}. It is {_text(record.model)}, fine-tuned with bert_zoo.\n\n"
        "```python\n"
        "import bert_zoo\n\n"
        'model = bert_zoo.load("path/to/this/directory")\n'
        f"print({use.call.format(texts=texts)})\n"
        "```"
    )


def _scores(record: RunRecord) -> str:
    scores = _grid(
        ["figure", f"{record.measured_on}, {record.num_measured:,} examples"],
        [[record.named(name), figure(value)] for name, value in record.kept.items()],
    )
    if record.baseline:
        beaten = ", ".join(f"{words(n)} {figure(v)}" for n, v in record.baseline.items())
        scores += f"\n\nWithout reading, {_text(record.baseline_answer)}: {_text(beaten)}."
    parts = [
        "## Scores",
        f"Of the weights in this directory, which are those after epoch {record.kept_epoch} of "
        f"{len(record.epochs)}.",
        scores,
        _text(record.caution),
        *_by_label(record.table),
    ]
    return "\n\n".join(part for part in parts if part)


def _by_label(table: Sequence[Mapping[str, Any]]) -> list[str]:
    if not table:
        return []
    columns = list(dict.fromkeys(name for row in table for name in row))
    rows = [[_cell(row.get(name)) for name in columns] for row in table]
    return [f"By {_text(words(columns[0]))}:", _grid(list(map(words, columns)), rows)]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else figure(value)


def _use(record: RunRecord) -> str:
    lines = [
        "## Intended use",
        f"It {USES[record.kind].purpose}, for texts like those that it was trained on; "
        'see "Training".',
    ]
    if record.labels:
        shown = ", ".join(_text(str(label)) for label in record.labels[:MOST_LABELS])
        more = len(record.labels) - MOST_LABELS
        rest = f", and {more:,} more, which `config.json` lists" if more > 0 else ""
        lines.append(f"Its {len(record.labels):,} labels: {shown}{rest}.")
    return "\n\n".join(lines)


def _limits(record: RunRecord) -> str:
    card = record.checkpoint or {}
    limits = [
        f"It has been measured on the {_text(record.measured_on)} examples named above and on nothing else: "
        "other sources, other times and other languages are not known.",
        f"The scores are of one training run, with seed {record.seed}; other seeds give others.",
        "It has not been examined for unfair treatment of people or groups, and what its "
        "pretraining texts and its training data hold of that may be in it.",
        *_length_limit(record),
    ]
    if record.labels and record.kind == "classification":
        limits.append("It always answers with one of its labels, also where none of them fits.")
    if card.get("lowercase"):
        limits.append("It reads all texts in lower case.")
    return "## Limits\n\n" + "\n".join(f"- {limit}" for limit in limits)


def _length_limit(record: RunRecord) -> list[str]:
    length = record.recipe.get("max_length")
    if length is None:
        return []
    if record.kind == "question_answering":
        return [f"It reads long texts in windows of {length} tokens, each by itself."]
    return [f"It was trained on texts cut to {length} tokens; what stands after that was not read."]


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
    names = list(record.kept)
    epochs = [
        [
            f"{number} (kept)" if number == record.kept_epoch else str(number),
            figure(loss),
            *(figure(figures[name]) for name in names),
        ]
        for number, (loss, figures) in enumerate(
            zip(record.losses, record.epochs, strict=True), start=1
        )
    ]
    parts = [
        "## Training",
        _text(record.data),
        _grid(["setting", "value"], facts.items()),
        "After each epoch:",
        _grid(["epoch", "training loss", *map(record.named, names)], epochs),
    ]
    if record.versions:
        listed = ", ".join(f"{name} {version}" for name, version in record.versions.items())
        parts.append(f"Versions: {_text(listed)}.")
    return "\n\n".join(parts)


def _base(record: RunRecord) -> str:
    card = record.checkpoint
    if card is None:
        return (
            "## Base checkpoint and licence\n\n"
            f"{_text(record.model)}. Its licence is not known to bert_zoo: find it out before you "
            "pass this model on."
        )
    lines = [
        f"- Checkpoint: {_text(card.get('name', record.model))} "
        f"({_text(card.get('family', 'family unknown'))})",
        f"- **Licence: {_text(card.get('licence') or 'not known')}**. It holds for this model too, "
        "beside what the training data asks.",
    ]
    if card.get("paper"):
        lines.append(f"- Paper: {with_paper_links(_text(card['paper']), _link)}")
    if card.get("note"):
        lines.append(f"- {_text(card['note'])}")
    return "## Base checkpoint and licence\n\n" + "\n".join(lines)


# --- Markdown ---


def _text(value: str) -> str:
    """A text as one line that Markdown shows as it is."""
    line = " ".join(value.split())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return MARKDOWN.sub(r"\\\1", line)


def _link(shown: str, address: str) -> str:
    return f"[{shown}]({address})"


def _grid(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(map(_text, row))} |" for row in (heads, *rows)]
    return "\n".join([lines[0], f"|{'---|' * len(heads)}", *lines[1:]])
