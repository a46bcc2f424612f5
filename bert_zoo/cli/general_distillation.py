"""`bert_zoo distill` on plain text."""

from pathlib import Path
from typing import Any

from bert_zoo.cli import checks
from bert_zoo.cli.program import Program, command
from bert_zoo.distillation.presets import TEXT_PRESETS
from bert_zoo.presets import Recipe
from bert_zoo.pretraining.corpus import FORMS

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
# Default fraction of held-out documents.
HELD_OUT = 0.05


def define_flags(program: Program) -> None:
    """Defines `FLAGS`."""
    about = "; ".join(f"{name}: {preset.about}" for name, preset in TEXT_PRESETS.items())
    program.enum(
        "form",
        None,
        FORMS,
        "What a line of the text holds; by default its first lines decide.",
    )
    program.list("general_text", None, "Other text to measure on as well.", check=checks.text)
    program.enum(
        "objective", "relations", list(TEXT_PRESETS), f"What the student learns from text. {about}."
    )
    program.list(
        "layer_map",
        None,
        "For objective layers: the teacher's layer for each student layer, counted from 1; by default evenly spaced.",
        check=checks.whole_number,
    )
    program.integer(
        "teacher_layer",
        None,
        "For objective relations: the teacher's layer, counted from 1; by default the last.",
    )
    program.integer(
        "relation_heads",
        None,
        "For objective relations: number of parts of each vector. By default 48, or the largest smaller number that "
        "divides both widths.",
    )
    program.integer("heads", None, "With --layers: the student's attention heads.", lower_bound=1)
    program.integer("steps", None, "Number of updates.", lower_bound=1)
    program.float("minutes", None, "Training time, instead of steps.", lower_bound=0)
    program.integer("length", None, "Tokens per row.", lower_bound=8)


def distill_on_text(
    program: Program, layers: int | tuple[int, ...] | None, directory: Path
) -> None:
    """Trains the student on text, as the program's flags say.

    Args:
        program: `bert_zoo distill`, with parsed flags.
        layers: teacher layers of a new student, as for `student_of`.
        directory: the run directory.
    """
    flags = program.flags
    _check_flags(program)
    if (flags.steps is None) == (flags.minutes is None):
        raise ValueError("Set the length of training with one of --steps and --minutes.")
    program.check()
    strategy = program.strategy()
    from bert_zoo.cli.pretrain import write_report
    from bert_zoo.distillation import distill_on_text
    from bert_zoo.models.replicas import is_chief

    changes: dict[str, Any] = program.given(Recipe)
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
    """Raises ValueError for flags that have no meaning with --text."""
    from bert_zoo.cli.pretrain import SETTINGS

    given = [name for name in OF_TASKS if not program.flags[name].using_default_value]
    given += [name for name in program.given(Recipe) if name not in SETTINGS]
    if given:
        names = ", ".join(f"--{name}" for name in given)
        raise ValueError(
            f"With --text, {names} has no effect. Leave it out; --steps or --minutes set the length of training, "
            "--length the tokens per row."
        )
