"""`bert_zoo evaluate` for recurrent language models."""

import dataclasses
from pathlib import Path
from typing import Any

from bert_zoo.cli import checks
from bert_zoo.cli.program import Program


def define_flags(program: Program) -> list[str]:
    """Defines the flags for evaluating a language model and returns their names."""
    before = {*program.flags}
    program.string(
        "model", None, "A recurrent language model, by name or directory.", check=checks.model
    )
    program.string(
        "text_file",
        None,
        "The text to predict, in the form of the training text.",
        check=checks.exists,
    )
    program.float("last", 1.0, "Fraction of the file to read, from its end.")
    program.integer("segment_length", 128, "Tokens per row and step.", lower_bound=1)
    program.list(
        "mem_len",
        None,
        "Memory lengths in tokens; by default the model's own.",
        check=checks.whole_number,
    )
    program.integer(
        "clamp_len", None, "Largest distance between tokens; by default the model's own."
    )
    program.bool(
        "same_length", None, "Whether all tokens see equally many others; by default as the model."
    )
    program.integer("batch_size", 10, "Rows per step.", lower_bound=1)
    return [name for name in program.flags if name not in before]


def evaluate(flags: Any, directory: Path | None) -> None:
    """Prints how well the model predicts the text, and writes it to the directory if there is one."""
    import bert_zoo
    from bert_zoo.presets import Reading
    from bert_zoo.pretraining.evaluation import evaluate as evaluated
    from bert_zoo.pretraining.streams import encode_file
    from bert_zoo.tasks import CausalLM
    from bert_zoo.weights.files import write_json

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
        read = dataclasses.replace(
            reading, mem_len=mem_len, same_length=reading.same_length and mem_len > 0
        )
        metrics = evaluated(model, ids, read)
        results[str(mem_len)] = metrics
        print(
            f"{mem_len:>8,}{metrics['perplexity']:>14.3f}{metrics['bits']:>10.4f}"
            f"{metrics['seconds']:>10.1f}"
        )
    if directory:
        directory.mkdir(parents=True, exist_ok=True)
        write_json(directory / "evaluation.json", results)
        print(f"\nWrote the results to {directory}.")
