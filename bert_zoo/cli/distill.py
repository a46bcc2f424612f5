"""Distils a model into a smaller one, on its task or on plain text.

bert_zoo distill --teacher runs/minilm_l6-sst2 --student bert_tiny --unlabelled "my/*.txt"
bert_zoo distill --teacher runs/minilm_l6-messages --layers 2 --hidden 128 --epochs 20
bert_zoo distill --teacher minilm_l6 --layers 2 --text "my/*.txt" --minutes 60

On a task, the data are those of the teacher's run unless flags name others. The
teacher predicts all texts once; the student learns from these predictions, and
from labels where there are any. To resume a stopped run, repeat the command.
"""

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bert_zoo.cli import checks, general_distillation
from bert_zoo.cli.benchmarks import BENCHMARKS, DataOptions, make_task, read_files
from bert_zoo.cli.program import Program, command
from bert_zoo.data import files
from bert_zoo.loading.locating import RUN_CONFIG
from bert_zoo.presets import Recipe

if TYPE_CHECKING:
    from bert_zoo.cli.benchmarks.base import Benchmark
    from bert_zoo.models.base import ZooModel

PROGRAM = Program(
    __doc__,
    required=("teacher",),
    on_interrupt="Stopped. Run the same command to resume. The results are the same as without the stop.",
)
_TEACHER = PROGRAM.string(
    "teacher",
    None,
    "A run directory of finetune, or any trained model's name or directory.",
    check=checks.model,
)
_STUDENT = PROGRAM.string(
    "student", None, "A name from `bert_zoo list`, or a directory.", check=checks.model
)
_LAYERS = PROGRAM.list(
    "layers",
    None,
    "Make a student from the teacher: the number of its layers to keep, or their numbers, from 0.",
    check=checks.whole_number,
)
_HIDDEN = PROGRAM.integer(
    "hidden", None, "With --layers: the student's hidden size.", lower_bound=1
)
# For distillation on plain text.
_TEXT = PROGRAM.list(
    "text", None, "Plain text to learn from: files, folders or patterns.", check=checks.text
)
_TASK = PROGRAM.enum("task", None, list(BENCHMARKS), "Use this task's data, not the teacher's.")
_TEXT_COLUMN = PROGRAM.string("text_column", None, 'The table\'s text column; by default "text".')
_UNLABELLED = PROGRAM.list(
    "unlabelled",
    None,
    "Files or patterns of unlabelled texts, one per line; pairs are separated by a tab.",
    check=checks.text,
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
    "recipe", None, "A name from `bert_zoo finetune --list_recipes`.", check=checks.recipe
)
_OUTPUT_DIR = PROGRAM.string("output_dir", None, "Run directory, by default runs/distill-NAMES.")
PROGRAM.define_runs()
_MAIN = (
    *("teacher", "student", "layers", "hidden", "text", "unlabelled", "temperature"),
    *("hard_weight", "match", "augment", "epochs", "learning_rate", "output_dir", "seeds"),
)
_SETTINGS = PROGRAM.define_fields(Recipe)
# Here --text means plain text, not a column.
_DATA = PROGRAM.define_fields(
    DataOptions, [field.name for field in fields(DataOptions) if field.name != "text"]
)
general_distillation.define_flags(PROGRAM)
PROGRAM.define_strategy()
PROGRAM.groups = {
    "Main flags": _MAIN,
    "Plain text": general_distillation.FLAGS,
    "Task data": ["task", *_DATA, "text_column"],
    "Recipe settings": [name for name in _SETTINGS if name not in _MAIN],
}


def main(arguments: list[str]) -> None:
    if (_STUDENT.value is None) == (_LAYERS.value is None):
        raise ValueError(
            "Give either --student, an existing model, or --layers, to make a student from the teacher."
        )
    student = Path(_STUDENT.value).name if _STUDENT.value else f"{'-'.join(_LAYERS.value)}-layers"
    directory = Path(_OUTPUT_DIR.value or f"runs/distill-{Path(_TEACHER.value).name}-{student}")
    if _TEXT.value is not None:
        general_distillation.distill_on_text(PROGRAM, chosen_layers(), directory)
        return
    distill_on_task(directory)


def distill_on_task(directory: Path) -> None:
    """Trains the student on the teacher's predictions, as the flags say."""
    data = task_data()
    PROGRAM.check()
    task = make_task(**data)
    read_files(task, data)
    from bert_zoo import private
    from bert_zoo.cli.benchmarks.distilled import Teaching, learn_from, unlabelled, varied
    from bert_zoo.cli.finetune import recipe_for, train

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
        teaching=Teaching(_MATCH.value, _TEMPERATURE.value, _HARD_WEIGHT.value),
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
    """Returns the arguments of `make_task`: the flags, and the teacher's run for the rest."""
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
    """Loads the teacher for a task. From a run with several seeds, loads the best model.

    Raises:
        ValueError: it has no trained head for the task.
    """
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
    """Makes a student from the teacher and saves it, or reuses one saved before. Returns its directory."""
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
    """Returns --layers in the form of `bert_zoo.distillation.student_of`; None if not given."""
    if _LAYERS.value is None:
        return None
    numbers = tuple(map(int, _LAYERS.value))
    return numbers[0] if len(numbers) == 1 else numbers
