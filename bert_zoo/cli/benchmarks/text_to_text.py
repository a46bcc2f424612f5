"""Text-to-text tasks: GLUE, SuperGLUE and SQuAD in T5's format, mixtures of them, and the user's own tables.

Source: Raffel et al. 2020 (arXiv:1910.10683), sections 2.4 and 3.5.2, appendix D; t5/data/preprocessors.py.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from bert_zoo.cli.benchmarks.base import (
    Baseline,
    Benchmark,
    Measurement,
    answer_lines,
    commonest,
    one_line,
    own_files,
)
from bert_zoo.data.buckets import MixedOrder, mixed_rows
from bert_zoo.data.tables import number, read_columns, remarks
from bert_zoo.metrics.errors import NUM_HARDEST, hardest_examples
from bert_zoo.metrics.squad import PREDICTIONS_FILE, token_f1
from bert_zoo.metrics.texts import text_metric
from bert_zoo.tasks import name_of
from bert_zoo.weights.files import write_json

# Similarity score for a text that is not a number, as in the original.
NO_SCORE = -1.0
PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
# Words to ignore before nouns that are compared.
DETERMINERS = frozenset(
    "a an few her his each every many much my our some that the their these this those which whose your".split()
)


@dataclass(frozen=True)
class TextPairs:
    """Sources with their targets."""

    sources: list[str]  # input texts, [N]
    # Right output texts, [N] tuples, all of which are trained; None if unknown.
    targets: list[tuple[str, ...]] | None
    data: Any = field(default=None, compare=False)  # the data that they were made from

    def __len__(self) -> int:
        return len(self.sources)

    @cached_property
    def trained(self) -> tuple[list[str], list[str]]:
        """Training pairs: sources, and one target for each."""
        rows = zip(self.sources, self.targets, strict=True)
        pairs = [(source, target) for source, targets in rows for target in targets]
        return [source for source, _ in pairs], [target for _, target in pairs]


class TextToTextBenchmark(Benchmark):
    """Generation of a target text for each source. The data are `TextPairs`."""

    kind = name_of("TextToText")
    heads = ()
    question = '"some text, like the sources"'
    # All possible targets; empty for free text.
    words: Sequence[str] = ()

    @property
    def num_train(self):
        return len(self.train.trained[0])

    def has_labels(self, data):
        return data.targets is not None

    def batches(self, model, recipe, seed):
        from bert_zoo.data.batches import text_to_text_batches

        return text_to_text_batches(*self.train.trained, model, recipe.batching(seed))

    def predict(self, model, data, recipe):
        """Generates targets, [N] strings, at most as long as the longest training target."""
        from bert_zoo.data.batches import text_table

        known = list(dict.fromkeys(self.words or self.train.trained[1]))
        longest = int(text_table(known, model.preprocessor).lengths.max())
        options = {"max_new_tokens": longest, "num_return_sequences": 1}
        return list(model.generate(data.sources, batch_size=recipe.predicted_rows, **options))

    def hardest(self, data: TextPairs, texts: Sequence[str]) -> list:
        """The wrong texts, those with the fewest words in common with their targets first."""
        rows = [
            (source, " / ".join(right), text, 1 - max(token_f1(text, each) for each in right))
            for source, right, text in zip(data.sources, data.targets, texts, strict=True)
            if right and text.strip() not in right
        ]
        return hardest_examples(*zip(*rows, strict=True)) if rows else []

    def table(self, data, predictions):
        targets = map(" / ".join, data.targets or [()] * len(data))
        return ("source", "target", "prediction"), zip(
            data.sources, targets, predictions, strict=True
        )

    def lines(self, model, data, metrics):
        yield "Some generated texts:"
        texts = model.generate(data.sources)
        for source, text, right in zip(data.sources, texts, data.targets, strict=True):
            yield answer_lines(source, text, right, "true")


# --- Benchmarks ---


class Judged(NamedTuple):
    """Generated texts in the form that the task's metrics take."""

    data: Any
    predictions: Any  # predictions for the task's metrics
    is_answer: Sequence[bool]  # whether each text is a valid answer, bool [N]


class AsText(TextToTextBenchmark):
    """Another benchmark, with its metrics and official scorer's files, as text to text: the model generates names of classes.

    Any other text counts as a wrong class. On a test split without labels it counts as the first class. `template` is
    the input text with names of `features`; None if the data's texts already are input texts.
    """

    unfit = "no_label"  # the metric that counts the fraction of invalid answers
    template: str | None = None
    features: Sequence[str] = ()

    def __init__(self, task: Benchmark, **attributes: Any):
        about = {"measured": task.measured, "source": f"{task.source}, as text to text"}
        super().__init__(task.name, self._read, task=task, **about, **attributes)

    def _read(self, split: str) -> TextPairs:
        data = self.task.data(split)
        targets = list(self.targets(data)) if self.task.has_labels(data) else None
        return TextPairs(list(self.sources(data)), targets, data)

    def sources(self, data: Any) -> Iterable[str]:
        if self.template is None:
            return data.texts
        columns = data.texts if isinstance(data.texts, tuple) else (data.texts,)
        named = (zip(self.features, row, strict=True) for row in zip(*columns, strict=True))
        return (self.template.format_map(dict(features)) for features in named)

    def targets(self, data: Any) -> Iterable[tuple[str, ...]]:
        """The right output texts of each row."""
        return ((self.words[label],) for label in data.labels)

    @property
    def words(self):
        return self.task.label_names

    def judged(self, data: TextPairs, texts: Sequence[str]) -> Judged:
        labels, number = data.data.labels, len(self.task.label_names)
        ids = np.array([self.label_of(data.data, *each) for each in enumerate(texts)])
        wrong = (np.asarray(labels) + 1) % number if data.targets else np.zeros_like(ids)
        return Judged(data.data, np.eye(number)[np.where(ids < 0, wrong, ids)], ids >= 0)

    def label_of(self, data: Any, row: int, text: str) -> int:
        """The class id of a text; -1 if it names no class."""
        text = text.strip()
        return self.words.index(text) if text in self.words else -1

    def baseline(self, data):
        return self.task.baseline(data.data)

    def measure(self, data, predictions):
        judged = self.judged(data, predictions)
        metrics = self.task.scores(judged.data, judged.predictions)
        metrics[self.unfit] = 1 - fmean(judged.is_answer)
        return Measurement(metrics, hardest=self.hardest(data, predictions))

    def official_files(self, directory, split, data, predictions):
        judged = self.judged(data, predictions)
        return self.task.official_files(directory, split, judged.data, judged.predictions)


class ScoresAsText(AsText):
    """Scores from 0 to 5 (STS-B), trained as the nearest multiple of 0.2. A text that is no number counts as -1."""

    words = tuple(f"{fifths / 5:.1f}" for fifths in range(26))
    unfit = "no_number"

    def targets(self, data):
        return ((f"{np.round(5 * score) / 5:.1f}",) for score in data.labels)

    def judged(self, data, texts):
        scores = np.array([*map(number, texts)])
        is_number = np.isfinite(scores)
        return Judged(data.data, np.where(is_number, scores, NO_SCORE), is_number)


class NounsAsText(AsText):
    """The noun that a pronoun refers to (WSC), trained only on right nouns.

    A text matches the noun if one contains all words of the other, ignoring case and determiners.
    """

    words = ()

    def targets(self, data):
        nouns = zip(data.entities, data.labels, strict=True)
        return ((noun,) if label else () for noun, label in nouns)

    def label_of(self, data, row, text):
        noun = data.entities[row]
        said, meant = (set(each.lower().split()) - DETERMINERS for each in (text, noun))
        if not said:
            return -1
        # "Bob's hat" is not Bob.
        return int((said <= meant or meant <= said) and ("'" in text) == ("'" in noun))


class EntitiesAsText(AsText):
    """The entity that fills a query's gap (ReCoRD). If several are right, each is trained."""

    words = ()
    unfit = "not_in_source"

    def targets(self, data):
        return data.right

    def judged(self, data, texts):
        texts = [text.strip() for text in texts]
        is_known = [text in source for text, source in zip(texts, data.sources, strict=True)]
        return Judged(replace(data.data, entities=texts), np.zeros((len(texts), 2)), is_known)

    def baseline(self, data):
        return None


class AnswersAsText(AsText):
    """Answers to questions (SQuAD). Punctuation is surrounded by spaces, which are removed before measuring."""

    words = ()
    unfit = "not_in_source"

    def sources(self, data):
        for example in data.examples:
            yield f"question: {_spaced(example.question)} context: {_spaced(example.context)}"

    def targets(self, data):
        for example in data.examples:
            yield tuple(dict.fromkeys(map(_spaced, example.references)))

    def judged(self, data, texts):
        examples = data.data.examples
        found = [_spelled(text, e.context) for text, e in zip(texts, examples, strict=True)]
        answers = dict(zip((e.id for e in examples), found, strict=True))
        known = [text in e.context for text, e in zip(found, examples, strict=True)]
        return Judged(data.data, answers, known)

    def official_files(self, directory, split, data, predictions):
        write_json(directory / PREDICTIONS_FILE, self.judged(data, predictions).predictions)
        yield directory / PREDICTIONS_FILE


def _spaced(text: str) -> str:
    return " ".join(PUNCTUATION.sub(r" \1 ", text).split())


def _spelled(text: str, context: str) -> str:
    """A text as the context spells it, which may have other spaces."""
    found = re.search(r"\s*".join(map(re.escape, "".join(text.split()))), context)
    return found[0] if found else text.strip()


# --- Several at once ---


class Mixture(TextToTextBenchmark):
    """Several tasks, with different names, for one model. The mean of their first metrics chooses the weights.

    The `data` of a split's `TextPairs` are its parts: (the task, the name of its split, its data).
    """

    def __init__(self, tasks: Sequence[AsText], limit: int, temperature: float):
        names = [task.name for task in tasks]
        super().__init__("+".join(names), self._read, source=f"a mixture of {', '.join(names)}")
        self.tasks = tasks
        self._mixed = partial(mixed_rows, limit=limit, temperature=temperature)

    def _read(self, split: str) -> TextPairs:
        of_tasks = [(t, t.measured if split == "validation" else (split,)) for t in self.tasks]
        parts = [(task, each, task.data(each)) for task, some in of_tasks for each in some]
        known = all(data.targets is not None for *_, data in parts)
        targets = [*chain(*(data.targets for *_, data in parts))] if known else None
        return TextPairs([*chain(*(data.sources for *_, data in parts))], targets, parts)

    @property
    def _sizes(self) -> list[int]:
        return [task.num_train for task in self.tasks]

    @property
    def num_train(self):
        """Rows per epoch."""
        return sum(self._mixed(self._sizes))

    def fingerprint(self):
        said = "".join(task.fingerprint() for task in self.tasks)
        return hashlib.sha256(said.encode()).hexdigest()

    def batches(self, model, recipe, seed):
        from bert_zoo.data.batches import text_to_text_batches

        order = partial(MixedOrder, sizes=self._sizes, rows=self._mixed(self._sizes))
        return text_to_text_batches(*self.train.trained, model, recipe.batching(seed), order)

    def predict(self, model, data, recipe):
        """The generated texts of each task, [tasks][N]."""
        return [task.predict(model, part, recipe) for task, _, part in data.data]

    def measure(self, data, predictions):
        rows = zip(data.data, predictions, strict=True)
        measured = [task.measure(part, texts) for (task, _, part), texts in rows]
        hardest = sorted(chain(*(each.hardest for each in measured)), key=lambda e: -e.loss)
        figures = self._named(data, [each.metrics for each in measured])
        return Measurement(figures, hardest=hardest[:NUM_HARDEST])

    def baseline(self, data):
        found = [task.baseline(part) for task, _, part in data.data]
        if None in found:
            return None
        figures = self._named(data, [each.figures for each in found])
        return Baseline("each task's most common answer", figures)

    def _named(self, data: TextPairs, figures: Sequence[dict[str, float]]) -> dict[str, float]:
        """The mean of the tasks' first metrics, and all metrics by task."""
        named = {"average": fmean(next(iter(each.values())) for each in figures)}
        for (task, split, _), each in zip(data.data, figures, strict=True):
            # Only MNLI has several splits.
            where = task.name if len(task.measured) == 1 else f"{task.name} {split}"
            named |= {f"{where} {name}": value for name, value in each.items()}
        return named

    def write_predictions(self, directory, split, data, predictions, metrics):
        rows = zip(data.data, predictions, strict=True)
        return [
            path
            for (task, each, part), texts in rows
            for path in task.write_predictions(directory, each, part, texts, metrics)
        ]

    def show(self, model, data, metrics):
        return "\n".join(task.show(model, part, metrics) for task, _, part in data.data)


def as_text(options, forms: Mapping[str, tuple[Any, Callable[[Benchmark], AsText]]]) -> Benchmark:
    """A benchmark as text to text, or a mixture of several; `forms` are entries of `TEXT_BENCHMARKS`."""
    tasks = [form(entry.make(name, options)) for name, (entry, form) in forms.items()]
    if len(tasks) == 1:
        return tasks[0]
    return Mixture(tasks, options.mixing_limit, options.mixing_temperature)


# --- The user's own table ---


class TableBenchmark(TextToTextBenchmark):
    """Sources and targets from a table; `metric` maps (texts, targets) to metrics."""

    def predict(self, model, data, recipe):
        """The generated texts [N], and the loss and token accuracy with teacher forcing."""
        from bert_zoo.data.batches import text_to_text_batches

        batches = text_to_text_batches(*data.trained, model, recipe.batching(seed=0))
        taught = model.evaluate(batches, verbose=0, return_dict=True)
        return super().predict(model, data, recipe), taught

    def measure(self, data, predictions):
        texts, taught = predictions
        metrics = self.metric(texts, data.trained[1])
        metrics |= {"token_accuracy": taught["accuracy"], "loss": taught["loss"]}
        return Measurement(metrics, hardest=self.hardest(data, texts))

    def baseline(self, data):
        answer = commonest(self.train.trained[1])
        figures = self.metric([answer] * len(data), data.trained[1])
        return Baseline(f"always {one_line(answer)!r}", figures)

    def table(self, data, predictions):
        return super().table(data, predictions[0])


def table_benchmark(options) -> TableBenchmark:
    names = (options.source_column, options.target_column)
    advice = " Name the columns with --source_column and --target_column."

    def read(path: str, train: TextPairs | None) -> TextPairs:
        data = read_columns(path, names, advice=advice, **options.layout)
        sources, targets = data.columns
        return TextPairs(sources, [(target,) for target in targets], data)

    files = own_files(options, read, remarks=lambda path, pairs: remarks(path, pairs.data))
    return TableBenchmark(**files, metric=text_metric(options.text_metric))
