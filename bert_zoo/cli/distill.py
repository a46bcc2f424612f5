"""Distils a model into a smaller one: on its own task, or on plain text.

bert_zoo distill --teacher runs/minilm_l6-sst2 --student bert_tiny --unlabelled "my/*.txt"
bert_zoo distill --teacher runs/minilm_l6-messages --layers 2 --hidden 128 --epochs 20
bert_zoo distill --teacher minilm_l6 --layers 2 --text "my/*.txt" --minutes 60

On a task, the data are those of the teacher's run; flags name others. The teacher answers all texts once,
and the student learns from these answers, mixed with labels where there are any. Started again with the
same options, a run that was stopped goes on.
"""

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bert_zoo.cli import general_distillation
from bert_zoo.cli.benchmarks import BENCHMARKS, DataOptions, make_task
from bert_zoo.cli.program import Program, command
from bert_zoo.presets import Recipe

if TYPE_CHECKING:
    from bert_zoo.cli.benchmarks.base import Benchmark
    from bert_zoo.models.base import ZooModel

PROGRAM = Program(
    __doc__,
    required=("teacher",),
    on_interrupt="Stopped. Run the same command to go on, as if nothing had been.",
)
_TEACHER = PROGRAM.string(
    "teacher", None, "A run directory of finetune; or any trained model's name or directory."
)
_STUDENT = PROGRAM.string("student", None, "A name of bert_zoo.list_models(), or a directory.")
_LAYERS = PROGRAM.list(
    "layers",
    None,
    "Make the student of the teacher: with so many of its layers, or with those of these numbers, from 0.",
)
_HIDDEN = PROGRAM.integer("hidden", None, "Of a student that is made: its width.", lower_bound=1)
# Of distillation on plain text.
_TEXT = PROGRAM.list("text", None, "Plain text to learn from: files, folders or patterns.")
_TASK = PROGRAM.enum("task", None, list(BENCHMARKS), "Other data than those of the teacher's run.")
_TEXT_COLUMN = PROGRAM.string(
    "text_column", None, "The table's column of texts, where it is not called text."
)
_UNLABELLED = PROGRAM.list(
    "unlabelled",
    None,
    "Files or patterns of texts that the teacher alone labels: one a line, of a pair with a tab between both.",
)
_TEMPERATURE = PROGRAM.float(
    "temperature", 2.0, "What logits of both are divided by.", lower_bound=0.01
)
_HARD_WEIGHT = PROGRAM.float(
    "hard_weight",
    0.5,
    "Share of the labels' own loss where there are labels.",
    lower_bound=0,
    upper_bound=1,
)
_MATCH = PROGRAM.enum(
    "match",
    None,
    ["cross_entropy", "squared_error", "cosine"],
    "How student and teacher are compared; by default cross_entropy of classes, squared_error of numbers and "
    "vectors.",
)
_AUGMENT = PROGRAM.integer(
    "augment", 0, "Variants of each training text that the teacher labels too.", lower_bound=0
)
_AUGMENT_WITH = PROGRAM.string(
    "augment_with", "bert_base_uncased", "The masked-token model that proposes their words."
)
_RECIPE = PROGRAM.string("recipe", None, "A name that finetune --list_recipes prints.")
_OUTPUT_DIR = PROGRAM.string("output_dir", None, "Run directory, by default runs/distill-<names>.")
PROGRAM.define_runs()
_MAIN = (
    *("teacher", "student", "layers", "hidden", "text", "unlabelled", "temperature"),
    *("hard_weight", "match", "augment", "epochs", "learning_rate", "output_dir", "seeds"),
)
_SETTINGS = PROGRAM.define_fields(Recipe)
# --text names plain text here.
_DATA = PROGRAM.define_fields(
    DataOptions, [field.name for field in fields(DataOptions) if field.name != "text"]
)
general_distillation.define_flags(PROGRAM)
PROGRAM.define_strategy()
PROGRAM.groups = {
    "Main flags": _MAIN,
    "On plain text": general_distillation.FLAGS,
    "Data of the task": ["task", *_DATA, "text_column"],
    "Settings of the recipe, in place of its own": [n for n in _SETTINGS if n not in _MAIN],
}


def main(arguments: list[str]) -> None:
    if (_STUDENT.value is None) == (_LAYERS.value is None):
        raise ValueError(
            "Give either --student, a model that there is, or --layers, to make one of the teacher."
        )
    student = Path(_STUDENT.value).name if _STUDENT.value else f"{'-'.join(_LAYERS.value)}-layers"
    directory = Path(_OUTPUT_DIR.value or f"runs/distill-{Path(_TEACHER.value).name}-{student}")
    if _TEXT.value is not None:
        general_distillation.distill_on_text(PROGRAM, chosen_layers(), directory)
        return
    distill_on_task(directory)


def distill_on_task(directory: Path) -> None:
    """Trains the student of the flags on what the teacher answers, and says where it is."""
    strategy = PROGRAM.strategy()
    from bert_zoo import private
    from bert_zoo.cli.benchmarks.distilled import Teaching, learn_from, unlabelled, varied
    from bert_zoo.cli.finetune import recipe_for, train

    if private.is_multi_worker(strategy):
        raise ValueError(
            "Several workers would all write the teacher's answers. Distil on one machine: --strategy mirrored."
        )
    data = task_data()
    task = make_task(**data)
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
    """The arguments of `make_task`: those of the teacher's run, as far as flags give no others."""
    from bert_zoo.training.runs import CONFIG, read_json

    given = PROGRAM.given(DataOptions)
    if _TEXT_COLUMN.value is not None:
        given["text"] = _TEXT_COLUMN.value
    if _TASK.value is not None:
        return {"name": _TASK.value, **given}
    run = Path(_TEACHER.value)
    configs = [*run.glob(CONFIG), *sorted(run.glob(f"seed_*/{CONFIG}"))]
    data = read_json(configs[0]).get("data") if configs else None
    if not data:
        raise ValueError(
            f"{_TEACHER.value} is no run directory of {command('finetune')}, which says what its data are. Name "
            "them: --task, and the flags of its files."
        )
    return data | given


def load_teacher(task: "Benchmark") -> "ZooModel":
    """The trained model of a run, of several seeds the best; or the model of this name for the task.

    Raises:
        ValueError: it has no trained head for the task.
    """
    import bert_zoo
    from bert_zoo.loading.load import missing_parts

    if missing := sorted(missing_parts(_TEACHER.value, task.kind)):
        raise ValueError(
            f"{_TEACHER.value} has no trained {' and no trained '.join(missing)} for the task {task.kind!r}, and a "
            f"teacher must know it. Fine-tune it first: {command('finetune')} --model {_TEACHER.value} --task ..., "
            "and name that run as --teacher."
        )
    return bert_zoo.load(_TEACHER.value, task=task.kind)


def made_student(teacher: "ZooModel", directory: Path, seed: int) -> str:
    """Makes a student of the teacher and saves it; where that was done before, that one is taken."""
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
    """--layers, as `bert_zoo.distillation.student_of` takes them; None where it is not given."""
    if _LAYERS.value is None:
        return None
    numbers = tuple(map(int, _LAYERS.value))
    return numbers[0] if len(numbers) == 1 else numbers
