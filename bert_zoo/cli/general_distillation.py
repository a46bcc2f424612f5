"""The half of `bert_zoo distill` that learns from plain text."""

from pathlib import Path
from typing import Any

from bert_zoo.cli.program import Program, command
from bert_zoo.distillation.presets import TEXT_PRESETS
from bert_zoo.presets import Recipe
from bert_zoo.pretraining.corpus import FORMS

# Flags of it alone, beside `text`.
FLAGS = (
    *("objective", "steps", "minutes", "length", "heads", "layer_map", "teacher_layer"),
    *("relation_heads", "form", "general_text"),
)
# Those of them that one objective has and another not.
OPTIONS = sorted({name for preset in TEXT_PRESETS.values() for name in preset.options})
# Of the program's flags, some that a text has no use for.
OF_TASKS = (
    *("unlabelled", "temperature", "hard_weight", "match", "augment", "recipe", "task"),
    *("train_file", "dev_file", "test_file", "seeds", "patience"),
)
# In place of a share that is not given.
HELD_OUT = 0.05


def define_flags(program: Program) -> None:
    """Defines `FLAGS`."""
    about = "; ".join(f"{name}: {preset.about}" for name, preset in TEXT_PRESETS.items())
    program.enum(
        "form",
        None,
        FORMS,
        "What a line of the text is; by default what its first lines speak for.",
    )
    program.list("general_text", None, "Text of other kinds to measure on too.")
    program.enum(
        "objective", "relations", list(TEXT_PRESETS), f"What is learned from a text. {about}."
    )
    program.list(
        "layer_map",
        None,
        "Of layers: for each of the student's layers the teacher's, from 1; by default at equal distances.",
    )
    program.integer(
        "teacher_layer", None, "Of relations: the teacher's layer, from 1; by default the last."
    )
    program.integer(
        "relation_heads",
        None,
        "Of relations: parts that vectors are divided in; by default 48, or the largest smaller number that "
        "divides both widths.",
    )
    program.integer("heads", None, "Of a student that is made: its attention heads.", lower_bound=1)
    program.integer("steps", None, "Updates of the whole training.", lower_bound=1)
    program.float("minutes", None, "A budget of time, in place of steps.", lower_bound=0)
    program.integer("length", None, "Tokens of a row.", lower_bound=8)


def distill_on_text(
    program: Program, layers: int | tuple[int, ...] | None, directory: Path
) -> None:
    """Trains the student of the program's flags on text, and says where it is.

    Args:
        program: `bert_zoo distill`, its flags parsed.
        layers: of a student that is made, as `student_of` takes them.
        directory: of the run.
    """
    flags = program.flags
    _check_flags(program)
    if (flags.steps is None) == (flags.minutes is None):
        raise ValueError("Say how long to train: --steps 1000, or --minutes 30.")
    strategy = program.strategy()
    from bert_zoo.cli.pretrain import write_report
    from bert_zoo.distillation import distill_on_text
    from bert_zoo.models.replicas import is_chief

    changes: dict[str, Any] = program.given(Recipe)
    if "batch_size" in changes:
        # The papers' batches are made of many; others are computed at once, unless it is said otherwise.
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
        layers=layers,
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
        report=write_report,
    )
    if not is_chief(strategy):
        return
    print(f"\n{results['steps']:,} steps, {results['tokens']:,} tokens.")
    print(f"The run is in {directory}, with a report: {directory / 'report.html'}")
    print(f"Fine-tune it: {command('finetune')} --model {directory / 'model'} --task messages")


def _check_flags(program: Program) -> None:
    """Raises ValueError for flags that say nothing of a training on text."""
    from bert_zoo.cli.pretrain import SETTINGS

    given = [name for name in OF_TASKS if not program.flags[name].using_default_value]
    given += [name for name in program.given(Recipe) if name not in SETTINGS]
    if given:
        names = ", ".join(f"--{name}" for name in given)
        raise ValueError(
            f"{names} is not read with --text. Leave it out; --steps or --minutes say how long the student "
            "learns, and --length how many tokens a row has."
        )
