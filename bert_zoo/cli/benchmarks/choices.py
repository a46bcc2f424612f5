"""Multiple choice: SWAG, RACE and COPA."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bert_zoo.cli.benchmarks.base import (
    Baseline,
    Benchmark,
    Measurement,
    commonest,
    is_test,
    one_line,
    spread_rows,
)
from bert_zoo.metrics.errors import cross_entropies, hardest_examples
from bert_zoo.metrics.labels import accuracy
from bert_zoo.tasks import name_of

LETTERS = "ABCDEFGHIJ"


class ChoiceBenchmark(Benchmark):
    """Choosing one of several texts for a prompt, of `ChoiceSplit`s; `write_official` maps (data of a test split,
    logits [N, choices], directory) to the official scorer's file, if there is one."""

    kind = name_of("MultipleChoice")
    question = '"some prompt" "one choice" "another one"'

    def __init__(
        self, *args, write_official: Callable[[Any, np.ndarray, Path], Path] | None = None, **kwargs
    ):
        super().__init__(*args, **kwargs)
        self.write_official = write_official

    def batches(self, model, recipe, seed):
        from bert_zoo.data.batches import choice_batches

        train = self.train
        return choice_batches(
            train.prompts, train.choices, train.labels, model.preprocessor, recipe.batching(seed)
        )

    def predict(self, model, data, recipe):
        """Logits [N, choices]."""
        return model.predict(
            (data.prompts, data.choices), batch_size=recipe.micro_batch_size, verbose=0
        )

    def measure(self, data, predictions):
        shown = [
            "\n".join([prompt, *(f"{LETTERS[i]}. {text}" for i, text in enumerate(choices))])
            for prompt, choices in zip(data.prompts, data.choices, strict=True)
        ]
        losses, answers = cross_entropies(data.labels, predictions), predictions.argmax(axis=-1)
        letters = ([LETTERS[i] for i in ids] for ids in (data.labels, answers))
        hardest = hardest_examples(shown, *letters, losses)
        metrics = {"accuracy": accuracy(data.labels, answers), "loss": float(losses.mean())}
        return Measurement(metrics, hardest=hardest)

    def baseline(self, data):
        answer = commonest(self.train.labels)
        always = np.full(len(data.labels), answer)
        figures = {"accuracy": accuracy(data.labels, always)}
        return Baseline(f"always choice {LETTERS[answer]}", figures)

    def write_predictions(self, directory, split, data, predictions, metrics):
        path = directory / f"{self.name}-{split}.json"
        answers = dict(zip(data.ids, predictions.argmax(axis=-1).tolist(), strict=True))
        path.write_text(json.dumps(answers, indent=1) + "\n")
        if self.write_official is None or not is_test(split):
            return [path]
        return [path, self.write_official(data, predictions, directory)]

    def show(self, model, data, metrics):
        rows = spread_rows(len(data))
        prompts, choices = ([column[i] for i in rows] for column in (data.prompts, data.choices))
        answers = model.predict((prompts, choices), verbose=0).argmax(axis=-1)
        lines = ["Some predictions:"]
        for row, prompt, texts, answer in zip(rows, prompts, choices, answers, strict=True):
            truth = data.labels[row]
            wrong = "" if answer == truth else f"   (wrong: {one_line(texts[truth])})"
            lines.append(f"  {one_line(prompt)}\n    {one_line(texts[answer])}{wrong}")
        return "\n".join(lines)
