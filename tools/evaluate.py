"""Scores a run directory of tools/finetune.py on a split, and writes its predictions.

python tools/evaluate.py --run runs/minilm_l6-sst2 --split validation
python tools/evaluate.py --run runs/minilm_l6-sst2 --split test        # and GLUE's submission file
python tools/evaluate.py --run runs/minilm_l6-mnli --task ax --split test
python tools/evaluate.py --run runs/bert_base-squad_v2 --split validation    # SQuAD's prediction file

The data are those of the run; flags name others, such as --test_file. Predictions are written to
--output_dir, by default `predictions` in the run directory.
"""

import json
from pathlib import Path
from typing import Any

import program
from absl import flags, logging
from dataclass_flags import define_fields, given
from strategy_flag import named_strategy

from bert_zoo.models.replicas import is_chief
from bert_zoo.training import finetuning
from bert_zoo.training.presets import Recipe
from bert_zoo.training.tasks import TASKS, DataOptions, make_task

_RUN = flags.DEFINE_string("run", None, "The run directory.", required=True)
_TASK = flags.DEFINE_enum("task", None, list(TASKS), "Other data than the run's.")
_SPLIT = flags.DEFINE_string("split", "validation", "The split.")
_OUTPUT_DIR = flags.DEFINE_string("output_dir", None, "Where predictions are written.")
_DATA = define_fields(DataOptions)


def main(argv: list[str]) -> None:
    program.no_arguments(argv)
    logging.set_verbosity(logging.WARNING)
    directory = Path(_RUN.value)
    strategy = named_strategy()
    with strategy.scope():
        model = finetuning.kept_model(directory)
    config = json.loads((directory / finetuning.CONFIG).read_text(encoding="utf-8"))
    kept = finetuning.kept_figures(directory)
    options = config["data"] | given(DataOptions)
    if _TASK.value:
        options["name"] = _TASK.value
    task = make_task(**options)
    recipe = Recipe(**config["recipe"])
    data = task.data(_SPLIT.value)
    predictions = task.predict(model, data, recipe)
    if not is_chief(strategy):
        return
    output = Path(_OUTPUT_DIR.value or directory / "predictions")
    output.mkdir(parents=True, exist_ok=True)
    if task.has_labels(data):
        measurement = task.measure(data, predictions)
        print(f"{task.name}, {_SPLIT.value} split, {len(data):,} examples:")
        for name, value in measurement.figures.items():
            print(f"  {name:<34} {value:.4f}")
        if measurement.table:
            print("\n  " + "  ".join(_head(item) for item in measurement.table[0].items()))
        for row in measurement.table:
            print("  " + "  ".join(_cell(value) for value in row.values()))
        finetuning.write_json(
            output / f"{task.name}-{_SPLIT.value}-metrics.json", measurement.figures
        )
    else:
        print(f"{task.name} keeps the labels of its {_SPLIT.value} split to itself.")
    for path in task.write_predictions(output, _SPLIT.value, data, predictions, kept):
        print(f"Wrote {path}")


def _head(item: tuple[str, Any]) -> str:
    """A column's name, as wide as its values."""
    name, value = item
    return f"{name:<10}" if isinstance(value, float) else f"{name:<24}"


def _cell(value: Any) -> str:
    return f"{value:<10.4f}" if isinstance(value, float) else f"{value!s:<24}"


if __name__ == "__main__":
    program.run(main, {"Main flags": ("run", "split", "output_dir", "task"), "Other data": _DATA})
