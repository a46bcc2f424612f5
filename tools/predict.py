"""Answers from a run directory of tools/finetune.py.

python tools/predict.py --run runs/minilm_l6-messages "Where is my parcel?"
echo "Where is my parcel?" | python tools/predict.py --run runs/minilm_l6-messages
python tools/predict.py --run runs/minilm_l6-rte --second "It rained." "It poured all day."
"""

import sys
from pathlib import Path

from absl import app, flags, logging

_RUN = flags.DEFINE_string("run", None, "The run directory.", required=True)
_SECOND = flags.DEFINE_string("second", None, "The second text of every pair, for tasks on pairs.")


def main(argv: list[str]) -> None:
    texts = argv[1:] or [line.rstrip("\n") for line in sys.stdin]
    if not texts:
        raise app.UsageError("Give texts as arguments, or one a line on standard input.")
    directory = Path(_RUN.value) / "model"
    if not directory.is_dir():
        seeds = sorted(path.parent.name for path in Path(_RUN.value).glob("seed_*/model"))
        hint = f" It has {', '.join(seeds)}: name one of them." if seeds else ""
        raise app.UsageError(f"{_RUN.value} holds no model.{hint}")
    # TensorFlow's remarks on how it writes a SavedModel would bury what this program prints.
    logging.set_verbosity(logging.WARNING)
    import bert_zoo

    model = bert_zoo.load(directory)
    inputs = texts if _SECOND.value is None else (texts, [_SECOND.value] * len(texts))
    if model.task == "regression":
        for text, value in zip(texts, model.predict(inputs, verbose=0)[:, 0], strict=True):
            print(f"{value:.3f}  {text}")
    else:
        print(model.classify(inputs))


if __name__ == "__main__":
    app.run(main)
