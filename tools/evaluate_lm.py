"""Evaluates a recurrent language model on a text file, under several memories.

python tools/evaluate_lm.py --model runs/lm-small/model --file text.txt --mem_len 0,64,256
python tools/evaluate_lm.py --model transformer_xl_wt103 --file wiki.test.tokens --mem_len 1600

`--effective_context` also measures how much context the model makes use of, beside the models of
`--compare` where there are some, and draws it, with the learning curves of their runs.
"""

import dataclasses
import json
from pathlib import Path

import program
from absl import flags, logging

_MODEL = flags.DEFINE_string(
    "model", None, "A name of bert_zoo.list_models(), or a directory.", required=True
)
_NAME = flags.DEFINE_string("name", "model", "What figures call it.")
_FILE = flags.DEFINE_string("file", None, "The text, as the model was trained on.", required=True)
_LAST = flags.DEFINE_float("last", 1.0, "The part at the file's end that is read.")
_SEGMENT = flags.DEFINE_integer("segment_length", 128, "Tokens of a row in a step.", lower_bound=1)
_MEM_LEN = flags.DEFINE_list("mem_len", None, "Memories; the model's own if not set.")
_CLAMP_LEN = flags.DEFINE_integer("clamp_len", None, "The model's own if not set.")
_SAME_LENGTH = flags.DEFINE_bool("same_length", None, "The model's own if not set.")
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 10, "Rows of a step.", lower_bound=1)
_EFFECTIVE = flags.DEFINE_bool(
    "effective_context", False, "Measure the relative effective context."
)
_COMPARE = flags.DEFINE_multi_string(
    "compare", [], "Further models to measure it on, as name=path."
)
_CONTEXTS = flags.DEFINE_list("contexts", ["16", "32", "64", "128", "256"], "In tokens.")
_PLACES = flags.DEFINE_integer("places", 1000, "Places that contexts are compared at.")
_OUTPUT = flags.DEFINE_string("output_dir", None, "Where figures are written, as JSON and PNG.")


def main(argv: list[str]) -> None:
    program.no_arguments(argv)
    logging.set_verbosity(logging.WARNING)
    import bert_zoo
    from bert_zoo.data.language_modelling import encode_file
    from bert_zoo.training.language_model_recipes import Reading
    from bert_zoo.training.language_modelling import evaluate

    model = bert_zoo.load(_MODEL.value, task="causal_lm")
    tokenizer = model.preprocessor.tokenizer
    ids = encode_file(_FILE.value, tokenizer)
    ids = ids[round(len(ids) * (1 - _LAST.value)) :]
    config = model.encoder.config
    reading = Reading(
        segment_length=_SEGMENT.value,
        mem_len=config.mem_len,
        clamp_len=config.clamp_len if _CLAMP_LEN.value is None else _CLAMP_LEN.value,
        same_length=config.same_length if _SAME_LENGTH.value is None else _SAME_LENGTH.value,
        batch_size=_BATCH_SIZE.value,
    )
    memories = [int(m) for m in _MEM_LEN.value] if _MEM_LEN.value else [config.mem_len]
    print(
        f"{len(ids):,} {tokenizer.unit}s in segments of {reading.segment_length}, clamp_len "
        f"{reading.clamp_len}, same_length {reading.same_length} (off without memory)\n"
        f"{'memory':>8}{'perplexity':>14}{'bits':>10}{'seconds':>10}"
    )
    directory = None if _OUTPUT.value is None else Path(_OUTPUT.value)
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
    results = {}
    for mem_len in memories:
        # Without a memory, the same number of keys for all would be one: the token itself.
        read = dataclasses.replace(
            reading, mem_len=mem_len, same_length=reading.same_length and mem_len > 0
        )
        figures = evaluate(model, ids, read, verbose=0)
        results[str(mem_len)] = figures
        print(
            f"{mem_len:>8,}{figures['perplexity']:>14.3f}{figures['bits']:>10.4f}"
            f"{figures['seconds']:>10.1f}"
        )
    if _EFFECTIVE.value:
        results["effective_context"] = measure_context(model, ids, directory)
    if directory is not None:
        text = json.dumps(results, indent=2) + "\n"
        (directory / "evaluation.json").write_text(text, encoding="utf-8")
        print(f"\nWritten to {directory}.")


def measure_context(model, ids, directory: Path | None) -> dict:
    """Prints and draws the relative effective context of the model and those beside it."""
    import numpy as np

    import bert_zoo
    from bert_zoo.training import language_modelling

    paths = {_NAME.value: Path(_MODEL.value)}
    models = {_NAME.value: model}
    for named in _COMPARE.value:
        name, _, path = named.rpartition("=")
        paths[name or path] = Path(path)
        models[name or path] = bert_zoo.load(path, task="causal_lm")
    contexts = [int(context) for context in _CONTEXTS.value]
    rng = np.random.default_rng(0)
    places = rng.choice(np.arange(contexts[-1], len(ids)), _PLACES.value, replace=False)
    losses = {
        name: language_modelling.losses_by_context(each, ids, places, contexts)
        for name, each in models.items()
    }
    results = language_modelling.relative_effective_context(losses, contexts)
    print(f"\nRelative effective context, at the hardest tenth of {len(places):,} places:")
    for name, result in results.items():
        gains = ", ".join(
            f"{context}: {100 * gain:.1f}%"
            for context, gain in zip(contexts[1:], result["gains"], strict=True)
        )
        print(f"  {name:<24} {result['effective_context']:>6} tokens (gain of each step: {gains})")
    if directory is not None:
        path = directory / "effective_context.png"
        language_modelling.draw_effective_context(losses, results, contexts, path)
        histories = {name: path.parent / language_modelling.HISTORY for name, path in paths.items()}
        runs = {
            name: json.loads(history.read_text(encoding="utf-8"))
            for name, history in histories.items()
            if history.is_file()
        }
        if runs:
            language_modelling.draw_history(runs, directory / "learning_curves.png")
    return results


if __name__ == "__main__":
    program.run(main)
