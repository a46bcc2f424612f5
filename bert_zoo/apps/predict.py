"""Answers from a run directory of `bert_zoo finetune`.

bert_zoo predict --run runs/minilm_l6-messages "Where is my parcel?"
echo "Where is my parcel?" | bert_zoo predict --run runs/minilm_l6-messages
bert_zoo predict --run runs/minilm_l6-rte --second "It rained." "It poured all day."
bert_zoo predict --run runs/minilm_l6-tags "Rockwell said the agreement calls for it ."
bert_zoo predict --run runs/minilm_l6-squad --context passage.txt "Who wrote it?"
"""

import sys
from pathlib import Path
from typing import Any

from bert_zoo.apps.program import Program

PROGRAM = Program(__doc__, required=("run",), takes_arguments=True)
_RUN = PROGRAM.string("run", None, "The run directory.")
_SECOND = PROGRAM.string("second", None, "The second text of every pair, for tasks on pairs.")
_CONTEXT = PROGRAM.string("context", None, "File with the text that holds the answers.")


def main(arguments: list[str]) -> None:
    texts = arguments or [line.rstrip("\n") for line in sys.stdin]
    if not texts:
        raise ValueError("Give texts as arguments, or one a line on standard input.")
    from bert_zoo.apps import finetuning
    from bert_zoo.loading.directories import kept_metrics

    directory = Path(_RUN.value)
    model = finetuning.kept_model(directory)
    print(answer(model, texts, kept_metrics(directory)))


def answer(model: Any, texts: list[str], metrics: dict[str, float]) -> Any:
    """What a model says of texts, to print."""
    from bert_zoo import tasks

    rows = texts if _SECOND.value is None else (texts, [_SECOND.value] * len(texts))
    match model:
        case tasks.Classifier():
            return model.classify(rows)
        case tasks.Regressor():
            scores = model.predict(rows, verbose=0)[:, 0]
            return "\n".join(f"{s:.3f}  {text}" for s, text in zip(scores, texts, strict=True))
        case tasks.TokenClassifier():
            return model.tag(texts)
        case tasks.MultipleChoice():
            return chosen(model, *texts)
        case tasks.QuestionAnswerer():
            return answers(model, texts, metrics)
    raise ValueError(f"The run is of task {model.task!r}, which answers no texts.")


def chosen(model: Any, prompt: str, *choices: str) -> str:
    if len(choices) < 2:
        raise ValueError("Give the prompt and two choices or more.")
    return choices[model.predict(([prompt], [choices]), verbose=0)[0].argmax()]


def answers(model: Any, questions: list[str], metrics: dict[str, float]) -> Any:
    if _CONTEXT.value is None:
        raise ValueError("Name the file that holds the answers with --context.")
    from bert_zoo.apps.benchmarks.questions import THRESHOLD

    context = Path(_CONTEXT.value).read_text(encoding="utf-8")
    contexts = [context] * len(questions)
    return model.answer(questions, contexts, no_answer_threshold=metrics.get(THRESHOLD))
