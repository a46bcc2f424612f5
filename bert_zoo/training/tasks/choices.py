"""Multiple choice: SWAG and RACE."""

import json

import numpy as np

from bert_zoo.data.choices import ChoiceSplit, load_race, load_swag
from bert_zoo.data.text_batches import choice_batches
from bert_zoo.training.report import cross_entropies, hardest_examples
from bert_zoo.training.tasks.base import (
    NUM_HARDEST,
    Baseline,
    Measurement,
    Task,
    commonest,
    one_line,
    spread_rows,
)
from bert_zoo.training.tasks.texts import accuracy

LETTERS = "ABCDEFGHIJ"


class ChoiceTask(Task):
    """Which of several texts goes with a prompt; arguments as `Task`, data are `ChoiceSplit`s."""

    kind = "multiple_choice"
    question = '"some prompt" "one choice" "another one"'

    def batches(self, model, recipe, seed):
        train = self.train
        return choice_batches(
            train.prompts, train.choices, train.labels, model.preprocessor, recipe.batching(seed)
        )

    def predict(self, model, data, recipe):
        """Logits [N, choices]."""
        return model.predict((data.prompts, data.choices), batch_size=recipe.batch_size, verbose=0)

    def measure(self, data, predictions):
        answers = predictions.argmax(axis=-1)
        shown = [
            "\n".join([prompt, *(f"{LETTERS[i]}. {text}" for i, text in enumerate(choices))])
            for prompt, choices in zip(data.prompts, data.choices, strict=True)
        ]
        letters = tuple(LETTERS[: predictions.shape[1]])
        hardest = hardest_examples(shown, data.labels, predictions, letters, NUM_HARDEST)
        figures = accuracy(data.labels, answers)
        figures["loss"] = float(cross_entropies(data.labels, predictions).mean())
        return Measurement(figures, hardest=hardest)

    def baseline(self, data):
        answer = commonest(self.train.labels)
        return Baseline(
            f"always choice {LETTERS[answer]}",
            accuracy(data.labels, np.full(len(data.labels), answer)),
        )

    def write_predictions(self, directory, split, data, predictions, figures):
        path = directory / f"{self.name}-{split}.json"
        answers = predictions.argmax(axis=-1)
        path.write_text(
            json.dumps(dict(zip(data.ids, map(int, answers), strict=True)), indent=1) + "\n"
        )
        return [path]

    def show(self, model, data, figures):
        rows = spread_rows(len(data))
        chosen = ChoiceSplit(
            [data.ids[i] for i in rows],
            [data.prompts[i] for i in rows],
            [data.choices[i] for i in rows],
            None,
        )
        logits = model.predict((chosen.prompts, chosen.choices), verbose=0)
        lines = ["Some predictions:"]
        for i, prompt, choices, answer in zip(
            rows, chosen.prompts, chosen.choices, logits.argmax(axis=-1), strict=True
        ):
            wrong = (
                ""
                if answer == data.labels[i]
                else f"   (wrong: {one_line(choices[data.labels[i]])})"
            )
            lines.append(f"  {one_line(prompt)}\n    {one_line(choices[answer])}{wrong}")
        return "\n".join(lines)


def swag_task(data_dir: str) -> ChoiceTask:
    """SWAG, from its CSV files, measured on its validation split."""
    return ChoiceTask(
        "swag", lambda split: load_swag(split, data_dir), source="SWAG (Zellers et al. 2018)"
    )


def race_task(data_dir: str | None = None) -> ChoiceTask:
    """RACE, middle and high school, measured on its development set."""
    return ChoiceTask(
        "race",
        lambda split: load_race(split, "all", data_dir).as_choices(),
        source="RACE (Lai et al. 2017)",
    )
