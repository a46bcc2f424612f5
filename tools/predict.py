"""Answers from a run directory of tools/finetune.py.

python tools/predict.py --run runs/minilm_l6-messages "Where is my parcel?"
echo "Where is my parcel?" | python tools/predict.py --run runs/minilm_l6-messages
python tools/predict.py --run runs/minilm_l6-rte --second "It rained." "It poured all day."
python tools/predict.py --run runs/minilm_l6-tags "Rockwell said the agreement calls for it ."
python tools/predict.py --run runs/minilm_l6-squad --context passage.txt "Who wrote it?"
"""

import sys
from pathlib import Path

import program
from absl import flags, logging

_RUN = flags.DEFINE_string("run", None, "The run directory.", required=True)
_SECOND = flags.DEFINE_string("second", None, "The second text of every pair, for tasks on pairs.")
_CONTEXT = flags.DEFINE_string("context", None, "File with the text that holds the answers.")


def main(argv: list[str]) -> None:
    texts = argv[1:] or [line.rstrip("\n") for line in sys.stdin]
    if not texts:
        raise ValueError("Give texts as arguments, or one a line on standard input.")
    # TensorFlow's remarks on how it writes a SavedModel would bury what this program prints.
    logging.set_verbosity(logging.WARNING)
    from bert_zoo.training import finetuning

    directory = Path(_RUN.value)
    model = finetuning.kept_model(directory)
    figures = finetuning.kept_figures(directory)
    if model.task not in ANSWERS:
        raise ValueError(f"The run is of task {model.task!r}; this program has no words for it.")
    print(ANSWERS[model.task](model, texts, figures))


def scores(model, texts: list[str], figures: dict[str, float]) -> str:
    values = model.predict(_with_second(texts), verbose=0)[:, 0]
    return "\n".join(f"{value:.3f}  {text}" for text, value in zip(texts, values, strict=True))


def answers(model, texts: list[str], figures: dict[str, float]):
    if _CONTEXT.value is None:
        raise ValueError("Name the file that holds the answers with --context.")
    from bert_zoo.training.tasks.questions import THRESHOLD

    context = Path(_CONTEXT.value).read_text(encoding="utf-8")
    return model.answer(texts, [context] * len(texts), no_answer_threshold=figures.get(THRESHOLD))


def choice(model, texts: list[str], figures: dict[str, float]) -> str:
    prompt, *choices = texts
    if len(choices) < 2:
        raise ValueError("Give the prompt and two choices or more.")
    logits = model.predict(([prompt], [choices]), verbose=0)[0]
    return choices[logits.argmax()]


def _with_second(texts: list[str]):
    return texts if _SECOND.value is None else (texts, [_SECOND.value] * len(texts))


ANSWERS = {
    "classification": lambda model, texts, figures: model.classify(_with_second(texts)),
    "multi_label_classification": lambda model, texts, figures: model.classify(_with_second(texts)),
    "regression": scores,
    "token_classification": lambda model, texts, figures: model.tag(texts),
    "question_answering": answers,
    "multiple_choice": choice,
}

if __name__ == "__main__":
    program.run(main)
