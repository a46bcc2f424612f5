"""Scores a fine-tuned run on a split, or a language model on a text.

bert_zoo evaluate --run runs/minilm_l6-sst2 --split validation
bert_zoo evaluate --run runs/minilm_l6-sst2 --split test        # and GLUE's submission file
bert_zoo evaluate --run runs/minilm_l6-mnli --task ax --split test
bert_zoo evaluate --run runs/bert_base-squad_v2 --split validation    # SQuAD's prediction file

bert_zoo evaluate --model transformer_xl_wt103 --text_file wiki.test.tokens --mem_len 0,640,1600

The data are those of the run unless flags name others, such as --test_file. Predictions are written to
--output_dir, by default `predictions` in the run directory. A recurrent language model is measured with
each memory length in --mem_len.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bert_zoo.cli import program
from bert_zoo.cli.benchmarks import TASK_NAMES, DataOptions, make_task, read_files
from bert_zoo.cli.program import Program, command
from bert_zoo.data import files
from bert_zoo.loading.locating import RUN_CONFIG, kept_metrics
from bert_zoo.presets import Reading, Recipe

PROGRAM = Program(__doc__)
_RUN = PROGRAM.string("run", None, "A run directory of `bert_zoo finetune`.", check=program.run)
_TASK = PROGRAM.string("task", None, f"Another task's data: {TASK_NAMES}.")
_SPLIT = PROGRAM.string(
    "split",
    None,
    "The split, such as validation or test; by default the one that chose the weights.",
)
_OUTPUT_DIR = PROGRAM.string("output_dir", None, "Directory for predictions.")
PROGRAM.groups = {
    "Main flags": ("run", "split", "output_dir", "task"),
    "Other data": PROGRAM.define_fields(DataOptions),
    "Language models": (
        *("model", "text_file", "last", "segment_length", "mem_len", "clamp_len"),
        *("same_length", "batch_size"),
    ),
}
PROGRAM.string(
    "model", None, "A recurrent language model, by name or directory.", check=program.model
)
PROGRAM.string(
    "text_file",
    None,
    "The text to predict, in the form of the training text.",
    check=program.exists,
)
PROGRAM.float("last", 1.0, "Fraction of the file to read, from its end.")
PROGRAM.integer("segment_length", 128, "Tokens per row and step.", lower_bound=1)
PROGRAM.list(
    "mem_len",
    None,
    "Memory lengths in tokens; by default the model's own.",
    check=program.whole_number,
)
PROGRAM.integer("clamp_len", None, "Largest distance between tokens; by default the model's own.")
PROGRAM.bool(
    "same_length", None, "Whether all tokens see equally many others; by default as the model."
)
PROGRAM.integer("batch_size", 10, "Rows per step.", lower_bound=1)
PROGRAM.define_strategy()


def main(arguments: list[str]) -> None:
    flags = PROGRAM.flags
    if (_RUN.value is None) == (flags.model is None) or bool(flags.model) != bool(flags.text_file):
        raise ValueError(
            "Give either --run, a run directory, or --model and --text_file, a language model and a text. --help "
            "lists the flags."
        )
    PROGRAM.check()
    if flags.model:
        evaluate_language_model()
        return
    directory = Path(_RUN.value)
    config = files.read_json(directory / RUN_CONFIG)
    if "name" not in config.get("data", {}):
        raise ValueError(
            f"{directory} is not a run of {command('finetune')}, so its data are unknown. Fine-tune its model on a task "
            "first."
        )
    kept = kept_metrics(directory)
    options = config["data"] | PROGRAM.given(DataOptions)
    if _TASK.value:
        options["name"] = _TASK.value
    task = make_task(**options)
    # Diagnostic sets are not measured in training.
    split = _SPLIT.value or next(iter(task.measured), "test")
    read_files(task, options, split)
    recipe = Recipe(**config["recipe"])
    from bert_zoo.cli import finetuning
    from bert_zoo.models.replicas import is_chief
    from bert_zoo.weights.files import write_json

    strategy = PROGRAM.strategy()
    with strategy.scope():
        model = finetuning.kept_model(directory)
    data = task.data(split)
    predictions = task.predict(model, data, recipe)
    if not is_chief(strategy):
        return
    output = Path(_OUTPUT_DIR.value or directory / "predictions")
    output.mkdir(parents=True, exist_ok=True)
    if task.has_labels(data):
        measurement = task.measure(data, predictions)
        print(f"{task.name}, {split} split, {len(data):,} examples:")
        for name, value in measurement.metrics.items():
            print(f"  {name:<34} {value:.4f}")
        print_table(measurement.table)
        path = output / f"{task.name}-{split}-metrics.json"
        write_json(path, measurement.metrics)
    else:
        print(f"The {split} split of {task.name} has no public labels.")
    for path in task.write_predictions(output, split, data, predictions, kept):
        print(f"Wrote {path}")


def evaluate_language_model() -> None:
    """Prints how well the model predicts the text, and writes it to the output directory if there is one."""
    import bert_zoo
    from bert_zoo.pretraining.models import evaluate
    from bert_zoo.pretraining.streams import encode_file
    from bert_zoo.tasks import CausalLM
    from bert_zoo.weights.files import write_json

    flags = PROGRAM.flags
    model = bert_zoo.load(flags.model, task=CausalLM.task)
    tokenizer = model.preprocessor.tokenizer
    ids = encode_file(flags.text_file, tokenizer)
    ids = ids[round(len(ids) * (1 - flags.last)) :]
    config = model.encoder.config
    reading = Reading(
        segment_length=flags.segment_length,
        batch_size=flags.batch_size,
        # A family whose state does not remember tokens has no memory length.
        mem_len=getattr(config, "mem_len", 0),
        clamp_len=getattr(config, "clamp_len", -1) if flags.clamp_len is None else flags.clamp_len,
        same_length=getattr(config, "same_length", False)
        if flags.same_length is None
        else flags.same_length,
    )
    print(
        f"{len(ids):,} {tokenizer.unit}s in segments of {reading.segment_length}, clamp_len "
        f"{reading.clamp_len}, same_length {reading.same_length} (only with memory)\n"
        f"{'memory':>8}{'perplexity':>14}{'bits':>10}{'seconds':>10}"
    )
    results: dict[str, Any] = {}
    for mem_len in map(int, flags.mem_len or [reading.mem_len]):
        # Without memory, same_length would leave each token only itself as a key.
        read = replace(reading, mem_len=mem_len, same_length=reading.same_length and mem_len > 0)
        metrics = evaluate(model, ids, read)
        results[str(mem_len)] = metrics
        print(
            f"{mem_len:>8,}{metrics['perplexity']:>14.3f}{metrics['bits']:>10.4f}"
            f"{metrics['seconds']:>10.1f}"
        )
    if _OUTPUT_DIR.value:
        directory = Path(_OUTPUT_DIR.value)
        directory.mkdir(parents=True, exist_ok=True)
        write_json(directory / "evaluation.json", results)
        print(f"\nWrote the results to {directory}.")


def print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Prints rows of column -> value as a table."""
    if not rows:
        return
    widths = [10 if isinstance(value, float) else 24 for value in rows[0].values()]
    print()
    for row in (list(rows[0]), *([row.get(name, "") for name in rows[0]] for row in rows)):
        cells = (f"{value:.4f}" if isinstance(value, float) else str(value) for value in row)
        print("  " + "  ".join(f"{c:<{width}}" for c, width in zip(cells, widths, strict=True)))
