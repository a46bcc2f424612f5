"""Distils a model into a smaller one, on its task or on plain text.

bert_zoo distill --teacher runs/minilm_l6-sst2 --student bert_tiny --unlabelled "my/*.txt"
bert_zoo distill --teacher runs/minilm_l6-messages --layers 2 --hidden 128 --epochs 20
bert_zoo distill --teacher minilm_l6 --layers 2 --text "my/*.txt" --minutes 60
bert_zoo distill --teacher minilm_l6 --table 256

On a task, the data are those of the teacher's run unless flags name others. The
teacher predicts all texts once; the student learns from these predictions, and
from labels where there are any. To resume a stopped run, repeat the command.
"""

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bert_zoo.cli import program
from bert_zoo.cli.benchmarks import BENCHMARKS, DataOptions, make_task, read_files
from bert_zoo.cli.program import Program, command
from bert_zoo.data import files
from bert_zoo.distillation.presets import TEXT_PRESETS
from bert_zoo.loading.locating import RUN_CONFIG
from bert_zoo.presets import Recipe
from bert_zoo.pretraining.corpus import FORMS

if TYPE_CHECKING:
    from bert_zoo.cli.benchmarks.base import Benchmark
    from bert_zoo.models.base import ZooModel


# Flags only for distillation on text, in addition to `text`.
FLAGS = (
    *("objective", "steps", "minutes", "length", "heads", "layer_map", "teacher_layer"),
    *("relation_heads", "form", "general_text"),
)
# Flags that only some objectives have.
OPTIONS = sorted({name for preset in TEXT_PRESETS.values() for name in preset.options})
# Flags that have no meaning on plain text.
OF_TASKS = (
    *("unlabelled", "temperature", "hard_weight", "match", "augment", "recipe", "task"),
    *("train_file", "dev_file", "test_file", "seeds", "patience"),
)
# Flags of a table of token vectors.
OF_TABLES = ("teacher", "table", "output_dir")
# Default fraction of held-out documents.
HELD_OUT = 0.05

PROGRAM = Program(
    __doc__,
    required=("teacher",),
    on_interrupt="Stopped. Run the same command to resume. The results are the same as without the stop.",
)
_TEACHER = PROGRAM.string(
    "teacher",
    None,
    "A run directory of finetune, or any trained model's name or directory.",
    check=program.model,
)
_STUDENT = PROGRAM.model("student")
_LAYERS = PROGRAM.list(
    "layers",
    None,
    "Make a student from the teacher: the number of its layers to keep, or their numbers, from 0.",
    check=program.whole_number,
)
_HIDDEN = PROGRAM.integer(
    "hidden", None, "With --layers: the student's hidden size.", lower_bound=1
)
_TABLE = PROGRAM.integer(
    "table",
    None,
    "Make a table of token vectors of this many dimensions from the teacher, in one pass over its vocabulary and "
    "without data.",
    lower_bound=1,
)
# For distillation on plain text.
_TEXT = PROGRAM.list(
    "text", None, "Plain text to learn from: files, folders or patterns.", check=program.text
)
_TASK = PROGRAM.enum("task", None, list(BENCHMARKS), "Use this task's data, not the teacher's.")
_TEXT_COLUMN = PROGRAM.string("text_column", None, 'The table\'s text column; by default "text".')
_UNLABELLED = PROGRAM.list(
    "unlabelled",
    None,
    "Files or patterns of unlabelled texts, one per line; pairs are separated by a tab.",
    check=program.text,
)
_TEMPERATURE = PROGRAM.float(
    "temperature", 2.0, "Divisor of teacher and student logits.", lower_bound=0.01
)
_HARD_WEIGHT = PROGRAM.float(
    "hard_weight",
    0.5,
    "Weight of the loss on labels, where there are labels.",
    lower_bound=0,
    upper_bound=1,
)
_MATCH = PROGRAM.enum(
    "match",
    None,
    ["cross_entropy", "squared_error", "cosine"],
    "Loss between student and teacher; by default cross_entropy for classes, squared_error for numbers and "
    "vectors.",
)
_AUGMENT = PROGRAM.integer(
    "augment", 0, "Variants of each training text for the teacher to label.", lower_bound=0
)
_AUGMENT_WITH = PROGRAM.string(
    "augment_with", "bert_base_uncased", "Masked language model that proposes the variants' words."
)
_RECIPE = PROGRAM.string(
    "recipe", None, "A name from `bert_zoo finetune --list_recipes`.", check=program.recipe
)
_OUTPUT_DIR = PROGRAM.string("output_dir", None, "Run directory, by default runs/distill-NAMES.")
PROGRAM.define_runs()
_MAIN = (
    *("teacher", "student", "layers", "hidden", "table", "text", "unlabelled", "temperature"),
    *("hard_weight", "match", "augment", "epochs", "learning_rate", "output_dir", "seeds"),
)
_SETTINGS = PROGRAM.define_fields(Recipe)
# Here --text means plain text, not a column.
_DATA = PROGRAM.define_fields(
    DataOptions, [field.name for field in fields(DataOptions) if field.name != "text"]
)
_OBJECTIVES = "; ".join(f"{name}: {preset.about}" for name, preset in TEXT_PRESETS.items())
PROGRAM.enum(
    "form",
    None,
    FORMS,
    "What a line of the text holds; by default its first lines decide.",
)
PROGRAM.list("general_text", None, "Other text to measure on as well.", check=program.text)
PROGRAM.enum(
    "objective",
    "relations",
    list(TEXT_PRESETS),
    f"What the student learns from text. {_OBJECTIVES}.",
)
PROGRAM.list(
    "layer_map",
    None,
    "For objective layers: the teacher's layer for each student layer, counted from 1; by default evenly spaced.",
    check=program.whole_number,
)
PROGRAM.integer(
    "teacher_layer",
    None,
    "For objective relations: the teacher's layer, counted from 1; by default the last.",
)
PROGRAM.integer(
    "relation_heads",
    None,
    "For objective relations: number of parts of each vector. By default 48, or the largest smaller number that "
    "divides both widths.",
)
PROGRAM.integer("heads", None, "With --layers: the student's attention heads.", lower_bound=1)
PROGRAM.integer("steps", None, "Number of updates.", lower_bound=1)
PROGRAM.float("minutes", None, "Training time, instead of steps.", lower_bound=0)
PROGRAM.integer("length", None, "Tokens per row.", lower_bound=8)
PROGRAM.define_strategy()
PROGRAM.groups = {
    "Main flags": _MAIN,
    "Plain text": FLAGS,
    "Task data": ["task", *_DATA, "text_column"],
    "Recipe settings": [name for name in _SETTINGS if name not in _MAIN],
}


def main(arguments: list[str]) -> None:
    if _TABLE.value is not None:
        make_table(Path(_OUTPUT_DIR.value or f"runs/table-{Path(_TEACHER.value).name}"))
        return
    if (_STUDENT.value is None) == (_LAYERS.value is None):
        raise ValueError(
            "Give either --student, an existing model, or --layers, to make a student from the teacher."
        )
    student = Path(_STUDENT.value).name if _STUDENT.value else f"{'-'.join(_LAYERS.value)}-layers"
    directory = Path(_OUTPUT_DIR.value or f"runs/distill-{Path(_TEACHER.value).name}-{student}")
    distil = distill_on_task if _TEXT.value is None else distill_on_text
    distil(directory)


def make_table(directory: Path) -> None:
    """Writes a model of sentence vectors without a transformer."""
    flags = PROGRAM.flags
    names = (name for group in PROGRAM.groups.values() for name in group if name not in OF_TABLES)
    if given := [f"--{name}" for name in names if not flags[name].using_default_value]:
        raise ValueError(f"With --table, {', '.join(given)} has no effect. Leave it out.")
    PROGRAM.check()
    import bert_zoo
    from bert_zoo.distillation import static_from

    table = static_from(bert_zoo.load(_TEACHER.value, task="encoder"), _TABLE.value)
    bert_zoo.save(table, directory)
    rows, width = table.encoder.config.vocab_size, table.encoder.config.hidden_size
    print(f"{rows:,} tokens of {width} dimensions are in {directory}. Use it:")
    print(f"{command('embed')} --model {directory} --text sentences.txt --output vectors.npy")


def distill_on_text(directory: Path) -> None:
    """Trains the student on text, as the flags say."""
    from bert_zoo.cli.pretrain import SETTINGS

    flags, changes = PROGRAM.flags, PROGRAM.given(Recipe)
    given = [name for name in OF_TASKS if not flags[name].using_default_value]
    given += [name for name in changes if name not in SETTINGS]
    if given:
        names = ", ".join(f"--{name}" for name in given)
        raise ValueError(
            f"With --text, {names} has no effect. Leave it out; --steps or --minutes set the length of training, "
            "--length the tokens per row."
        )
    if (flags.steps is None) == (flags.minutes is None):
        raise ValueError("Set the length of training with one of --steps and --minutes.")
    PROGRAM.check()
    strategy = PROGRAM.strategy()
    from bert_zoo.cli.report import write_pretraining_report
    from bert_zoo.distillation import distill_on_text
    from bert_zoo.models.replicas import is_chief

    if "batch_size" in changes:
        # The papers' large batches are accumulated. Another batch size is computed at once by default.
        changes = {"gradient_accumulation_steps": 1} | changes
    changes |= {
        setting: flags[flag].value
        for flag, setting in {"steps": "total_steps", "length": "max_length"}.items()
        if flags[flag].value is not None
    }
    options = {name: flags[name].value for name in OPTIONS if flags[name].value is not None}
    if "layer_map" in options:
        options["layer_map"] = tuple(map(int, options["layer_map"]))
    preset = TEXT_PRESETS[flags.objective]
    print(f"Objective {flags.objective}: {preset.source}.")
    results = distill_on_text(
        flags.teacher,
        flags.text,
        directory,
        student=flags.student,
        layers=chosen_layers(),
        hidden_size=flags.hidden,
        num_heads=flags.heads,
        objective=flags.objective,
        options=options,
        changes=changes,
        seconds=None if flags.minutes is None else 60 * flags.minutes,
        general_text=flags.general_text,
        reading={"form": flags.form, "encoding": flags.encoding},
        held_out=HELD_OUT if flags.held_out is None else flags.held_out,
        seed=flags.first_seed,
        checkpoint_seconds=60 * flags.checkpoint_minutes,
        strategy=strategy,
        report=write_pretraining_report,
    )
    if not is_chief(strategy):
        return
    print(f"\n{results['steps']:,} steps, {results['tokens']:,} tokens.")
    print(f"The run is in {directory}, with a report: {directory / 'report.html'}")
    print(f"Fine-tune it: {command('finetune')} --model {directory / 'model'} --task messages")


def distill_on_task(directory: Path) -> None:
    """Trains the student on the teacher's predictions, as the flags say."""
    data = task_data()
    PROGRAM.check()
    task = make_task(**data)
    read_files(task, data)
    from bert_zoo import private
    from bert_zoo.cli.benchmarks.distilled import learn_from, unlabelled, varied
    from bert_zoo.cli.finetune import recipe_for
    from bert_zoo.cli.finetuning import train

    strategy = PROGRAM.strategy()
    if private.is_multi_worker(strategy):
        raise ValueError(
            "Distillation runs on one machine, because every worker would write the teacher's predictions. Use "
            "--strategy mirrored."
        )
    for remark in task.remarks():
        print(f"Note: {remark}")
    teacher = load_teacher(task)
    students = {
        seed: _STUDENT.value or made_student(teacher, directory / "students", seed)
        for seed in PROGRAM.seeds
    }
    first_seed, first_student = next(iter(students.items()))
    recipe = recipe_for(first_student, task, _RECIPE.value, PROGRAM.given(Recipe))
    more = unlabelled(task, _UNLABELLED.value or [], data.get("encoding"))
    if _AUGMENT.value:
        more |= varied(task, _AUGMENT_WITH.value, _AUGMENT.value, directory / "teacher", first_seed)
    lesson = learn_from(
        teacher,
        _TEACHER.value,
        task,
        directory / "teacher",
        more=more,
        teaching={flag.name: flag.value for flag in (_MATCH, _TEMPERATURE, _HARD_WEIGHT)},
        recipe=recipe,
        makes_student=_STUDENT.value is None,
    )
    del teacher
    train(
        students,
        task,
        recipe,
        directory,
        **PROGRAM.run_options(),
        data=data,
        strategy=strategy,
        lesson=lesson,
    )


def task_data() -> dict[str, Any]:
    """The arguments of `make_task`: the flags, and the teacher's run for the rest."""
    given = PROGRAM.given(DataOptions)
    if _TEXT_COLUMN.value is not None:
        given["text"] = _TEXT_COLUMN.value
    if _TASK.value is not None:
        return {"name": _TASK.value, **given}
    run = Path(_TEACHER.value)
    configs = [*run.glob(RUN_CONFIG), *sorted(run.glob(f"seed_*/{RUN_CONFIG}"))]
    config = files.read_json(configs[0]) if configs else {}
    data = config.get("data", {})
    if "name" not in data:  # a pretraining's data have none
        raise ValueError(
            f"{_TEACHER.value} is not a run directory of {command('finetune')}, so its task is unknown. Give --task "
            "and its data, for example --task table --train_file train.csv."
        )
    return data | given


def load_teacher(task: "Benchmark") -> "ZooModel":
    """The teacher for a task, from a run with several seeds the best model; ValueError if it has no trained head for
    the task."""
    import bert_zoo
    from bert_zoo.loading.load import missing_parts

    if missing := sorted(missing_parts(_TEACHER.value, task.kind)):
        raise ValueError(
            f"{_TEACHER.value} has no trained {' and no trained '.join(missing)} for the task {task.kind!r}, which a "
            f"teacher needs. Fine-tune it first ({command('finetune')} --model {_TEACHER.value} --task ...), then "
            "name that run as --teacher."
        )
    return bert_zoo.load(_TEACHER.value, task=task.kind)


def made_student(teacher: "ZooModel", directory: Path, seed: int) -> str:
    """The directory of a student that is made from the teacher, or was before."""
    import keras

    import bert_zoo
    from bert_zoo.distillation import student_of

    name = f"layers_{'-'.join(_LAYERS.value)}" + (f"_h{_HIDDEN.value}" if _HIDDEN.value else "")
    path = directory / f"{name}_seed_{seed}"
    if not path.is_dir():
        keras.utils.set_random_seed(seed)
        bert_zoo.save(student_of(teacher, chosen_layers(), _HIDDEN.value), path)
    return str(path)


def chosen_layers() -> int | tuple[int, ...] | None:
    """--layers in the form of `bert_zoo.distillation.student_of`; None if not given."""
    if _LAYERS.value is None:
        return None
    numbers = tuple(map(int, _LAYERS.value))
    return numbers[0] if len(numbers) == 1 else numbers
