"""Losses of `fit` on texts, and what verbs say of them: the same whatever reads the texts.

`python tests/text_results.py` writes those of TensorFlow's path to the golden file.
"""

import json
from pathlib import Path

import keras
import numpy as np
from helpers import CHOICES, TEXTS, load_case, load_task

from bert_zoo.data.fill_in import Cloze
from bert_zoo.models import SentenceEmbedder
from bert_zoo.probing import recall_facts
from bert_zoo.tasks import Reranker
from bert_zoo.training import compile_for_task

FILE = Path(__file__).parent / "golden" / "text_results.json"
OTHERS = ["it was good", "not very", "they saw it"]
# Task, or what `MADE` makes -> data of three rows.
DATA = {
    "classification": (TEXTS, ["positive", "neutral", "negative"]),
    "regression": (TEXTS, [0.5, -1.0, 2.0]),
    "multi_label_classification": ((TEXTS, OTHERS), [["toxic"], [], ["obscene", "insult"]]),
    "token_classification": (
        TEXTS,
        [["O"] * 5 + ["B-LOC"], ["O", "B-PER"], [0] * 6 + [-100, 1, 2, 0, 0, 4]],
    ),
    "multiple_choice": (CHOICES, [0, 1, 1]),
    "question_answering": (
        (["who?", "what is it?", "which house?"], TEXTS),
        [("cat", 4), None, ("big red", 14)],
    ),
    "pairs": ((TEXTS, OTHERS), None),
    "scores": ((TEXTS, OTHERS), [0.1, 0.9, 0.4]),
    "classes": (TEXTS, ["a", "b", "a"]),
    "lists": ((TEXTS, OTHERS, OTHERS[::-1]), None),
    "windows": (TEXTS, [0, 1, 2]),
    "language_model": (TEXTS, None),
}
MADE = {
    "pairs": lambda: SentenceEmbedder(load_task("encoder", dropout=0.0)),
    "scores": lambda: SentenceEmbedder(load_task("encoder", dropout=0.0)),
    "classes": lambda: SentenceEmbedder(load_task("encoder", dropout=0.0)),
    "lists": lambda: Reranker(load_task("encoder", dropout=0.0)),
    "windows": lambda: load_task("classification", dropout=0.0, long_texts="mean", max_length=8),
    "language_model": lambda: load_case("gpt2/causal_lm", dropout=0.0),
}


def losses(name: str) -> dict[str, list[float]]:
    """Returns the results of two epochs with validation."""
    keras.utils.set_random_seed(0)
    model = MADE[name]() if name in MADE else load_task(name, dropout=0.0)
    for variable in model.trainable_variables:
        if "classifier" in variable.path:  # drawn otherwise on each backend
            variable.assign(np.full(variable.shape, 0.01))
    compile_for_task(model, keras.optimizers.SGD(0.01))
    x, y = DATA[name]
    validation = (x,) if y is None else (x, y)
    options = {"epochs": 2, "batch_size": 2, "shuffle": False, "verbose": 0}
    history = model.fit(x, y, validation_data=validation, **options).history
    return {key: [float(value) for value in values] for key, values in history.items()}


# Data whose losses do not compare the rows of a batch, so that rows can have weights.
WEIGHED = [name for name in DATA if name not in ("pairs", "scores", "classes")]


def check_weights(name: str) -> None:
    """Checks that a row of weight 0 is left out, in fit, validation and evaluation of texts in memory."""
    model = MADE[name]() if name in MADE else load_task(name, dropout=0.0)
    compile_for_task(model, keras.optimizers.SGD(0.0))
    data, weights = DATA[name], np.array([[1.0], [0.0], [1.0]])

    def some(data):
        return tuple(map(some, data)) if isinstance(data, tuple) else data and [data[0], data[2]]

    def losses(data, **options) -> list[float]:
        options |= {"shuffle": False, "verbose": 0}
        history = model.fit(*data, **options).history
        return [*history["loss"], *history["val_loss"]]

    kept = some(data)
    wanted = losses(kept, validation_data=kept, validation_batch_size=1)
    validation = {"validation_data": (*data, weights[:, 0]), "validation_batch_size": 1}
    np.testing.assert_allclose(losses(data, sample_weight=weights, **validation), wanted, rtol=1e-5)


LONG = " ".join(TEXTS * 6)
VERBS = {
    "classify": lambda: load_task("classification").classify((TEXTS * 12, OTHERS * 12)),
    "classify_many": lambda: load_task("multi_label_classification").classify(TEXTS),
    "tag": lambda: load_task("token_classification").tag([*TEXTS, LONG], aggregate=False),
    "tag_by_average": lambda: load_task("token_classification").tag(
        TEXTS, aggregation_strategy="average"
    ),
    "answer": lambda: load_task("question_answering").answer(["who?", "where?"], [LONG, TEXTS[0]]),
    "fill_mask": lambda: load_task("masked_lm").fill_mask("the [MASK] sat on a [MASK]"),
    "score": lambda: load_case("gpt2/causal_lm").score(TEXTS),
    "score_masked": lambda: load_task("masked_lm").score(TEXTS, within_word="left_to_right"),
    "recall_facts": lambda: recall_facts(load_task("masked_lm"), [Cloze("a [MASK] sat", "bird")]),
    "generate": lambda: load_case("gpt2/causal_lm").generate(TEXTS, max_new_tokens=4, stop=None),
}


def said(name: str) -> list[str]:
    """Returns what a verb returns, as printed."""
    keras.utils.set_random_seed(0)
    return str(VERBS[name]()).split("\n")


if __name__ == "__main__":
    results = {
        "losses": {name: losses(name) for name in DATA},
        "said": {name: said(name) for name in VERBS},
    }
    FILE.write_text(json.dumps(results, indent=1) + "\n")
