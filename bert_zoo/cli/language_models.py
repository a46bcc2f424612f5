"""What `bert_zoo evaluate` does with a recurrent language model."""

import dataclasses
from pathlib import Path
from typing import Any

from bert_zoo.cli.program import Program


def define_flags(program: Program) -> list[str]:
    """Defines the flags of a language model's evaluation; returns their names."""
    before = {*program.flags}
    program.string("model", None, "A recurrent language model: a name, or a directory.")
    program.string(
        "text_file", None, "The text that it is to predict, a file as it was trained on."
    )
    program.float("last", 1.0, "The part at the file's end that is read.")
    program.integer("segment_length", 128, "Tokens of a row in a step.", lower_bound=1)
    program.list("mem_len", None, "Memories; the model's own if not set.")
    program.integer("clamp_len", None, "The model's own if not set.")
    program.bool("same_length", None, "The model's own if not set.")
    program.integer("batch_size", 10, "Rows of a step.", lower_bound=1)
    return [name for name in program.flags if name not in before]


def evaluate(flags: Any, directory: Path | None) -> None:
    """Prints, and writes to the directory, how well the model of the flags predicts their text."""
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
        # Of a family whose state is no memory of tokens, none is read.
        mem_len=getattr(config, "mem_len", 0),
        clamp_len=getattr(config, "clamp_len", -1) if flags.clamp_len is None else flags.clamp_len,
        same_length=getattr(config, "same_length", False)
        if flags.same_length is None
        else flags.same_length,
    )
    print(
        f"{len(ids):,} {tokenizer.unit}s in segments of {reading.segment_length}, clamp_len "
        f"{reading.clamp_len}, same_length {reading.same_length} (off without memory)\n"
        f"{'memory':>8}{'perplexity':>14}{'bits':>10}{'seconds':>10}"
    )
    results: dict[str, Any] = {}
    for mem_len in map(int, flags.mem_len or [reading.mem_len]):
        # Without a memory, the same number of keys for all would be one: the token itself.
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
        print(f"\nWritten to {directory}.")
