"""Writes a SavedModel that takes text.

    python tools/export.py --model minilm_l6 --task embedding --output exported/minilm_l6
    python tools/export.py --model runs/minilm_l6-rte/model --pairs --output exported/rte

docs/export.md says what it can be asked.
"""

import program
from absl import flags

_MODEL = flags.DEFINE_string(
    "model", None, "A name of bert_zoo.list_models(), or a directory.", required=True
)
_TASK = flags.DEFINE_string(
    "task", None, "The task; by default what the directory was saved as, else the bare encoder."
)
_OUTPUT = flags.DEFINE_string("output", None, "The directory to write.", required=True)
_PAIRS = flags.DEFINE_bool("pairs", False, "Make serving_default take pairs of texts.")
_MAX_LENGTH = flags.DEFINE_integer(
    "max_length", None, "Tokens that a text, or a pair, is cut to; the model's own by default."
)


def main(argv: list[str]) -> None:
    program.no_arguments(argv)
    import bert_zoo

    model = bert_zoo.load(_MODEL.value, _TASK.value, max_length=_MAX_LENGTH.value)
    bert_zoo.export(model, _OUTPUT.value, pairs=_PAIRS.value)
    print(f"Wrote the SavedModel of {_MODEL.value}, task {model.task}, to {_OUTPUT.value}.")


if __name__ == "__main__":
    program.run(main)
