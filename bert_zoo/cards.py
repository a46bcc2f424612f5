"""What is known of a checkpoint, and what training it takes; imports no TensorFlow and no Keras."""

from typing import Any

from bert_zoo import memory
from bert_zoo.family import Checkpoint, Family
from bert_zoo.registry import registry

# Hugging Face's identifiers (their list of licences for model cards). A licence that is qualified, or
# that its authors never declared, is "other" there, with the card's words as its name.
HUB_LICENCES = {
    "Apache-2.0": "apache-2.0",
    "MIT": "mit",
    "CC-BY-SA-4.0": "cc-by-sa-4.0",
    "CC-BY-NC-4.0 (not for commercial use)": "cc-by-nc-4.0",
}


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
        rows = [f"{name}: {item}" for name, item in value.items()]
    elif isinstance(value, list):
        rows = [str(item) for item in value]
    elif isinstance(value, int) and not isinstance(value, bool):
        rows = [f"{value:,}"]
    else:
        rows = [str(value)]
    return [f"{key if n == 0 else '':<{width}}  {row}" for n, row in enumerate(rows)]


def describe(
    name: str,
    *,
    batch_size: int | None = None,
    max_length: int | None = None,
    task: str | None = None,
    predictions: int | None = None,
) -> Card:
    """The card of a checkpoint: family, sizes, parameters, licence, paper, sources, scores.

    With any of the following arguments, also the memory that training takes, estimated; see
    docs/memory.md.

    Args:
        name: as `load` takes it.
        batch_size: rows a step; 32 where another argument asks for the memory.
        max_length: tokens a row; the most that the checkpoint reads unless `load` says otherwise.
        task: the head; "classification", or the language model's own where there is no such head.
        predictions: tokens a row that "masked_lm" and "pretraining" predict; all where it is not
            given.

    Raises:
        ValueError: no such name; the message gives the nearest ones. Or a number is not positive, the
            row is too long, or the family does not have the task.
    """
    family, checkpoint = registry().resolve(name)
    config = family.config(checkpoint)
    training = {}
    if (batch_size, max_length, task, predictions) != (None,) * 4:
        training = _training(family, checkpoint, batch_size, max_length, task, predictions)
    return Card(
        name=checkpoint.full_name,
        aliases=list(checkpoint.aliases),
        family=family.name,
        sizes=config.card(),
        compute={
            f"forward pass of {length} tokens": f"{config.forward_flops(length) / 1e9:.1f} GFLOP"
            for length in config.priced_lengths
        },
        **training,
        activation=config.activation,
        lowercase=checkpoint.text.lowercase,
        max_length=checkpoint.text.max_length,
        parameters=checkpoint.params,
        licence=checkpoint.licence,
        paper=checkpoint.paper,
        sources=[str(source) for source in checkpoint.sources],
        provides=sorted(checkpoint.provides),
        labels=list(checkpoint.labels),
        scores=dict(checkpoint.scores),
        note=checkpoint.note,
    )


def _training(
    family: Family,
    checkpoint: Checkpoint,
    batch_size: int | None,
    max_length: int | None,
    task: str | None,
    predictions: int | None,
) -> dict[str, Any]:
    """The entries of a card that say what memory training takes; arguments as `describe`."""
    config = family.config(checkpoint)
    rows = 32 if batch_size is None else batch_size
    length = max_length
    if length is None:
        length = min(checkpoint.text.max_length, config.longest_input)
    if task is None:
        of_texts = (name for name, head in family.heads.items() if head.reads_first_only)
        task = next(of_texts, family.params_task)
    tasks = sorted(family.tasks)
    if task not in tasks:
        raise ValueError(
            f"The family {family.name} has no task {task!r}; it has {', '.join(tasks)}."
        )
    shape = {"length": length, "head": family.heads.get(task), "predictions": predictions}
    estimates, fits = {}, {}
    for words, options in memory.SETTINGS.items():
        options = shape | options
        estimates[words] = memory.training_memory(
            config, checkpoint.params, batch_size=rows, **options
        )
        fits[words] = memory.largest_batches(config, checkpoint.params, **options)
    return {
        "training_step": f"{rows} rows of {length} tokens, {task}",
        "training_memory": estimates,
        "largest_batch": fits,
    }
