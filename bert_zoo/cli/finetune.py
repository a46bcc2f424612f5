"""Fine-tunes a model on a benchmark, on your own files, or on the included messages to a shop.

bert_zoo finetune --model minilm_l6 --task messages
bert_zoo finetune --model minilm_l6 --task sst2 --data_dir path/to/glue --seeds 3
bert_zoo finetune --model minilm_l6 --task table --train_file train.csv --held_out 200
bert_zoo finetune --model minilm_l6 --task tagging --train_file train.txt --test_file test.txt
bert_zoo finetune --model bert_base --task questions --train_file squad.json --held_out 3

By default the recipe is the one published for the model and task. Flags
override its settings. To resume a stopped run, repeat the command.
"""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bert_zoo.cli import program
from bert_zoo.cli.benchmarks import TASK_NAMES, DataOptions, make_task, read_files
from bert_zoo.cli.program import Program
from bert_zoo.presets import Recipe

if TYPE_CHECKING:
    from bert_zoo.cli.benchmarks.base import Benchmark

PROGRAM = Program(
    __doc__,
    needs_flags=True,
    on_interrupt="Stopped. Run the same command to resume after the epoch of the last checkpoint, or from "
    "the start if there is no checkpoint yet. The results are the same as without the stop.",
)
_MODEL = PROGRAM.model(default="minilm_l6")
_TASK = PROGRAM.string("task", "messages", f"Task to train on: {TASK_NAMES}.")
_OUTPUT_DIR = PROGRAM.string("output_dir", None, "Run directory, by default runs/MODEL-TASK.")
_RECIPE = PROGRAM.string(
    "recipe", None, "A name from `bert_zoo finetune --list_recipes`.", check=program.recipe
)
_LIST = PROGRAM.bool("list_recipes", False, "Print all recipes and exit.")
_MODEL_PARALLEL = PROGRAM.integer(
    "model_parallel",
    1,
    "Number of devices that share one copy of the model; needs KERAS_BACKEND=jax.",
    lower_bound=1,
)
_CORES = PROGRAM.integer(
    "cores",
    None,
    "Split each batch across this many CPU cores; by default they share each operation. See use_cores().",
    lower_bound=1,
)
PROGRAM.define_runs()

_MAIN = (
    *("model", "task", "train_file", "dev_file", "test_file", "held_out", "text", "label"),
    *("data_dir", "epochs", "batch_size", "learning_rate", "max_length"),
    *("output_dir", "seeds", "recipe"),
)
_SETTINGS, _DATA = PROGRAM.define_fields(Recipe), PROGRAM.define_fields(DataOptions)
PROGRAM.define_strategy()
PROGRAM.groups = {
    "Main flags": _MAIN,
    "Data": [name for name in _DATA if name not in _MAIN],
    "Recipe settings": [name for name in _SETTINGS if name not in _MAIN],
}


def main(arguments: list[str]) -> None:
    if _LIST.value:
        list_recipes()
        return
    PROGRAM.check()
    data = {"name": _TASK.value, **PROGRAM.given(DataOptions)}
    task = make_task(**data)
    read_files(task, data)
    from bert_zoo.cli.finetuning import train
    from bert_zoo.models.cores import use_cores
    from bert_zoo.models.replicas import is_on_tpu

    if _CORES.value:
        use_cores(_CORES.value)
    strategy = PROGRAM.strategy(_MODEL_PARALLEL.value)
    recipe = recipe_for(_MODEL.value, task, _RECIPE.value, PROGRAM.given(Recipe))
    if is_on_tpu(strategy) and not recipe.fixed_shapes:
        print("Using --fixed_shapes, because a TPU compiles each new shape of batch.")
        recipe = recipe.replace(fixed_shapes=True)
    output = Path(_OUTPUT_DIR.value or f"runs/{Path(_MODEL.value).name}-{task.name}")
    for remark in task.remarks():
        print(f"Note: {remark}")
    train(
        dict.fromkeys(PROGRAM.seeds, _MODEL.value),
        task,
        recipe,
        output,
        **PROGRAM.run_options(),
        data=data,
        strategy=strategy,
    )


def recipe_for(
    name: str, task: "Benchmark", recipe: str | None, given: Mapping[str, Any]
) -> Recipe:
    """The named recipe, or the published one, with the settings that were `given`; prints which one it is.

    A task that trains models of several kinds then trains the model's own.
    """
    from bert_zoo.loading.directories import open_checkpoint
    from bert_zoo.tasks.presets import preset
    from bert_zoo.training.presets import default_preset

    opened = open_checkpoint(name, with_weights=False)
    task.suit(name, opened.description.task)
    if recipe or given.get("features"):
        chosen = preset(recipe or "features")
    else:
        chosen = default_preset(
            opened.family.name, opened.config, task.kind, task.published_as or task.name
        )
    # A recipe belongs to a family, whose small models may read shorter texts than its large ones.
    longest = opened.config.longest_input
    too_long = {"max_length": longest} if chosen.recipe.max_length > longest else {}
    changes = too_long | dict(given)
    if "epochs" in changes and chosen.recipe.least_updates:  # exactly this many epochs
        changes = {"least_updates": 0} | changes
    if "batch_size" in changes and chosen.recipe.least_batch_size:
        changes = {"least_batch_size": None} | changes
    settings = ", ".join(f"--{name} {value}" for name, value in changes.items())
    print(f"Recipe {chosen.name}" + (f", with {settings}" if settings else "") + ".")
    return chosen.recipe.replace(**changes)


def list_recipes() -> None:
    """Prints every preset: name, tasks, differences from BERT's recipe, and source."""
    from bert_zoo.tasks.presets import PRESETS

    usual = Recipe()
    for chosen in PRESETS.values():
        settings = {f.name: getattr(chosen.recipe, f.name) for f in fields(Recipe)}
        own = ", ".join(f"{n}={v}" for n, v in settings.items() if v != getattr(usual, n))
        print(f"{chosen.name}  ({', '.join(chosen.tasks)})\n  {own or 'BERT’s settings'}")
        if chosen.grid:
            print(f"  chosen from {', '.join(f'{n} {v}' for n, v in chosen.grid.items())}")
        print(f"  {chosen.source}" + (f"\n  {chosen.note}" if chosen.note else ""))
