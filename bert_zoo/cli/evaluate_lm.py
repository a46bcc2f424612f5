"""Evaluates a recurrent language model on a text file, under several memories.

bert_zoo evaluate_lm --model runs/lm-small/model --file text.txt --mem_len 0,64,256
bert_zoo evaluate_lm --model transformer_xl_wt103 --file wiki.test.tokens --mem_len 1600

`--effective_context` also measures how much context the model makes use of, beside the models of
`--compare` where there are some, and draws it, with the learning curves of their runs.
"""

import dataclasses
from pathlib import Path

from bert_zoo.cli.program import Program

PROGRAM = Program(__doc__, required=("model", "file"))
_MODEL = PROGRAM.string("model", None, "A name of bert_zoo.list_models(), or a directory.")
_NAME = PROGRAM.string("name", "model", "What metrics call it.")
_FILE = PROGRAM.string("file", None, "The text, as the model was trained on.")
_LAST = PROGRAM.float("last", 1.0, "The part at the file's end that is read.")
_SEGMENT = PROGRAM.integer("segment_length", 128, "Tokens of a row in a step.", lower_bound=1)
_MEM_LEN = PROGRAM.list("mem_len", None, "Memories; the model's own if not set.")
_CLAMP_LEN = PROGRAM.integer("clamp_len", None, "The model's own if not set.")
_SAME_LENGTH = PROGRAM.bool("same_length", None, "The model's own if not set.")
_BATCH_SIZE = PROGRAM.integer("batch_size", 10, "Rows of a step.", lower_bound=1)
_EFFECTIVE = PROGRAM.bool("effective_context", False, "Measure the relative effective context.")
_COMPARE = PROGRAM.multi_string("compare", [], "Further models to measure it on, as name=path.")
_CONTEXTS = PROGRAM.list("contexts", ["16", "32", "64", "128", "256"], "In tokens.")
_POSITIONS = PROGRAM.integer("positions", 1000, "Positions that contexts are compared at.")
PROGRAM.renamed("places", "positions")
_OUTPUT = PROGRAM.string("output_dir", None, "Where metrics are written, as JSON and PNG.")


def main(arguments: list[str]) -> None:
    import bert_zoo
    from bert_zoo.cli.finetuning import write_json
    from bert_zoo.cli.language_modelling import evaluate
    from bert_zoo.data.language_modelling import encode_file
    from bert_zoo.presets import Reading
    from bert_zoo.tasks import CausalLM

    model = bert_zoo.load(_MODEL.value, task=CausalLM.task)
    tokenizer = model.preprocessor.tokenizer
    ids = encode_file(_FILE.value, tokenizer)
    ids = ids[round(len(ids) * (1 - _LAST.value)) :]
    config = model.encoder.config
    reading = Reading(
        segment_length=_SEGMENT.value,
        batch_size=_BATCH_SIZE.value,
        mem_len=config.mem_len,
        clamp_len=config.clamp_len if _CLAMP_LEN.value is None else _CLAMP_LEN.value,
        same_length=config.same_length if _SAME_LENGTH.value is None else _SAME_LENGTH.value,
    )
    print(
        f"{len(ids):,} {tokenizer.unit}s in segments of {reading.segment_length}, clamp_len "
        f"{reading.clamp_len}, same_length {reading.same_length} (off without memory)\n"
        f"{'memory':>8}{'perplexity':>14}{'bits':>10}{'seconds':>10}"
    )
    directory = Path(_OUTPUT.value) if _OUTPUT.value else None
    if directory:
        directory.mkdir(parents=True, exist_ok=True)
    results = {}
    for mem_len in map(int, _MEM_LEN.value or [config.mem_len]):
        # Without a memory, the same number of keys for all would be one: the token itself.
        read = dataclasses.replace(
            reading, mem_len=mem_len, same_length=reading.same_length and mem_len > 0
        )
        metrics = evaluate(model, ids, read, verbose=0)
        results[str(mem_len)] = metrics
        print(
            f"{mem_len:>8,}{metrics['perplexity']:>14.3f}{metrics['bits']:>10.4f}"
            f"{metrics['seconds']:>10.1f}"
        )
    if _EFFECTIVE.value:
        results["effective_context"] = measure_context(model, ids, directory)
    if directory:
        write_json(directory / "evaluation.json", results)
        print(f"\nWritten to {directory}.")


def measure_context(model, ids, directory: Path | None) -> dict:
    """Prints and draws the relative effective context of the model and those beside it."""
    import numpy as np

    import bert_zoo
    from bert_zoo.cli import language_modelling
    from bert_zoo.tasks import CausalLM

    paths = {_NAME.value: Path(_MODEL.value)}
    models = {_NAME.value: model}
    for named in _COMPARE.value:
        name, _, path = named.rpartition("=")
        paths[name or path] = Path(path)
        models[name or path] = bert_zoo.load(path, task=CausalLM.task)
    contexts = [int(context) for context in _CONTEXTS.value]
    rng = np.random.default_rng(0)
    positions = rng.choice(np.arange(contexts[-1], len(ids)), _POSITIONS.value, replace=False)
    losses = {
        name: language_modelling.losses_by_context(each, ids, positions, contexts)
        for name, each in models.items()
    }
    results = language_modelling.relative_effective_context(losses, contexts)
    print(f"\nRelative effective context, at the hardest tenth of {len(positions):,} positions:")
    for name, result in results.items():
        gains = ", ".join(
            f"{context}: {100 * gain:.1f}%"
            for context, gain in zip(contexts[1:], result["gains"], strict=True)
        )
        print(f"  {name:<24} {result['effective_context']:>6} tokens (gain of each step: {gains})")
    if directory:
        path = directory / "effective_context.png"
        language_modelling.draw_effective_context(losses, results, contexts, path)
        runs = {name: language_modelling.history(path.parent) for name, path in paths.items()}
        if runs := {name: rows for name, rows in runs.items() if rows}:
            language_modelling.draw_history(runs, directory / "learning_curves.png")
    return results
