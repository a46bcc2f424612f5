"""Trains a Transformer-XL on text files, by the paper's settings or in a small way.

bert_zoo train_lm --preset small --train_file text.txt
bert_zoo train_lm --preset wt103_base --train_file wikitext-103/wiki.train.tokens \\
    --valid_file wikitext-103/wiki.valid.tokens

Started again with the same options, it goes on where it was stopped.
"""

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bert_zoo.cli.build_vocabulary import counted_tokenizer
from bert_zoo.cli.program import Program
from bert_zoo.presets import LanguageModelPreset
from bert_zoo.registry import registry

if TYPE_CHECKING:
    from bert_zoo.text import WordLevelTokenizer

PRESETS = {p.name: p for f in registry().families.values() for p in f.language_model_presets}
SETTINGS = ("total_steps", "batch_size", "segment_length", "learning_rate", "unit")
MODEL_SETTINGS = ("mem_len", "cutoffs", "div_val")

PROGRAM = Program(
    __doc__,
    required=("train_file",),
    groups={
        "Main flags": ("preset", "train_file", "valid_file", "held_out", "output_dir"),
        "Settings of the preset, in place of its own": (*SETTINGS, *MODEL_SETTINGS),
    },
    on_interrupt="Stopped. Run the same command to go on from the last checkpoint.",
)
_PRESET = PROGRAM.enum("preset", "small", list(PRESETS), "The model and its settings.")
_TRAIN = PROGRAM.string("train_file", None, "Text to train on.")
_VALID = PROGRAM.string("valid_file", None, "Text to measure on.")
_HELD_OUT = PROGRAM.float(
    "held_out", 0.05, "Without a valid_file, the part at train_file's end that is held out."
)
_VOCABULARY = PROGRAM.string(
    "vocabulary", None, "A directory of `bert_zoo build_vocabulary`; else train_file's tokens."
)
_MAX_SIZE = PROGRAM.integer("max_size", None, "The most tokens of a vocabulary made here.")
_OUTPUT_DIR = PROGRAM.string("output_dir", None, "Run directory, by default runs/lm-<preset>.")
_STOP_AT = PROGRAM.integer("stop_at", None, "Stop after this step, to go on later.")
_EVERY = PROGRAM.integer("every", 250, "Steps between measurements.", lower_bound=1)
_SEED = PROGRAM.integer("seed", 0, "Of random initial weights and dropout.")
_DTYPE = PROGRAM.string("dtype", "float32", "A Keras dtype policy, such as mixed_bfloat16.")
PROGRAM.define_strategy()
PROGRAM.integer("total_steps", None, "Updates of the whole training.", lower_bound=1)
PROGRAM.integer("batch_size", None, "Streams that are read side by side.", lower_bound=1)
PROGRAM.integer("segment_length", None, "Tokens of a stream that a step reads.", lower_bound=1)
PROGRAM.float("learning_rate", None, "The highest.")
PROGRAM.enum("unit", None, ["word", "character", "byte"], "What a token is.")
PROGRAM.integer("mem_len", None, "Tokens remembered from before a segment.", lower_bound=0)
PROGRAM.list("cutoffs", None, "Where the adaptive softmax's clusters begin.")
PROGRAM.integer("div_val", None, "By what each cluster's vectors are smaller.", lower_bound=1)
PROGRAM.renamed("recipe", "preset")
PROGRAM.renamed("max_symbols", "max_size")
PROGRAM.renamed("steps", "total_steps")


def main(arguments: list[str]) -> None:
    import keras

    from bert_zoo.cli import language_modelling
    from bert_zoo.data.language_modelling import encode_file
    from bert_zoo.models.replicas import is_chief
    from bert_zoo.text.preprocessor import LanguageModelPreprocessor

    strategy = PROGRAM.strategy()
    preset = changed_preset()
    tokenizer = make_tokenizer(preset)
    streams = [encode_file(path, tokenizer) for path in (_TRAIN.value, _VALID.value) if path]
    if len(streams) == 1:
        cut = math.ceil(len(streams[0]) * (1 - _HELD_OUT.value))
        streams = [streams[0][:cut], streams[0][cut:]]
    keras.utils.set_random_seed(_SEED.value)
    preprocessor = LanguageModelPreprocessor(tokenizer, sequence_length=2048)
    with strategy.scope():
        model = language_modelling.new_model(preset, preprocessor, _DTYPE.value)
    directory = Path(_OUTPUT_DIR.value or f"runs/lm-{_PRESET.value}")
    print(
        f"Training {model.count_params():,} parameters for {preset.total_steps:,} steps on "
        f"{len(streams[0]):,} {tokenizer.unit}s of {tokenizer.vocab_size:,} kinds; "
        f"{len(streams[1]):,} are held out."
    )
    language_modelling.train(
        preset,
        model,
        *streams,
        directory,
        every=_EVERY.value,
        stop_at=_STOP_AT.value,
        strategy=strategy,
    )
    if not is_chief(strategy):
        return
    import bert_zoo

    best = bert_zoo.load(directory / "model")
    reading = preset.evaluation
    without = dataclasses.replace(reading, mem_len=0, same_length=False)
    metrics = {
        f"memory of {r.mem_len}": language_modelling.evaluate(best, streams[1], r, verbose=0)
        for r in (reading, without)
    }
    language_modelling.write_json(directory / "metrics.json", metrics)
    print(f"\nHeld-out text, in segments of {reading.segment_length}:")
    for name, row in metrics.items():
        print(f"  {name:<18} {row['bits']:.4f} bits a {tokenizer.unit}, perplexity "
              f"{row['perplexity']:.2f}, {row['seconds']:.1f} s")  # fmt: skip
    print(f"\nThe run is in {directory}; the model that measured best in {directory / 'model'}.")


def changed_preset() -> LanguageModelPreset:
    """The preset, with the settings that flags change."""

    def given(names: tuple[str, ...]) -> dict[str, Any]:
        values = {name: PROGRAM.flags[name].value for name in names}
        return {name: value for name, value in values.items() if value is not None}

    preset, config = PRESETS[_PRESET.value], given(MODEL_SETTINGS)
    if "cutoffs" in config:
        config["cutoffs"] = tuple(map(int, config["cutoffs"]))
    return dataclasses.replace(preset, config={**preset.config, **config}, **given(SETTINGS))


def make_tokenizer(preset: LanguageModelPreset) -> "WordLevelTokenizer":
    """The vocabulary that was named, or one of the text's tokens."""
    from bert_zoo.text import tokenizer_from_dir

    if _VOCABULARY.value:
        return tokenizer_from_dir(_VOCABULARY.value, preset.family)
    # Rare words are unknown ones; there are no unknown characters.
    paths = [_TRAIN.value, None if preset.unit == "word" else _VALID.value]
    tokenizer, _ = counted_tokenizer(
        [path for path in paths if path],
        unit=preset.unit,
        space_token=preset.space_token,
        max_size=_MAX_SIZE.value or preset.vocab_size,
    )
    return tokenizer
