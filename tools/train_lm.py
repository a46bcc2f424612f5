"""Trains a Transformer-XL on text files, by the paper's recipes or a small one.

python tools/train_lm.py --recipe small --train_file ../shared/data/text/brown.txt
python tools/train_lm.py --recipe wt103_base --train_file wikitext-103/wiki.train.tokens \\
    --valid_file wikitext-103/wiki.valid.tokens

Started again with the same options, it goes on where it was stopped.
"""

import dataclasses
import math
from pathlib import Path

import program
from absl import flags, logging
from strategy_flag import named_strategy

_RECIPE = flags.DEFINE_string(
    "recipe", "small", "A name in bert_zoo.training.language_model_recipes.RECIPES, with settings."
)
_TRAIN = flags.DEFINE_string("train_file", None, "Text to train on.", required=True)
_VALID = flags.DEFINE_string("valid_file", None, "Text to measure on.")
_HELD_OUT = flags.DEFINE_float(
    "held_out", 0.05, "Without a valid_file, the part at train_file's end that is held out."
)
_VOCABULARY = flags.DEFINE_string(
    "vocabulary", None, "A directory of tools/build_vocabulary.py; else train_file's symbols."
)
_OUTPUT_DIR = flags.DEFINE_string("output_dir", None, "Run directory; runs/lm-<recipe> if not set.")
_STEPS = flags.DEFINE_integer(
    "steps", None, "Updates of the whole training, instead of the recipe's.", lower_bound=1
)
_STOP_AT = flags.DEFINE_integer("stop_at", None, "Stop after this step, to go on later.")
_BATCH_SIZE = flags.DEFINE_integer(
    "batch_size",
    None,
    "Streams that are read side by side, instead of the recipe's.",
    lower_bound=1,
)
_SEGMENT = flags.DEFINE_integer(
    "segment_length",
    None,
    "Tokens of a stream that a step reads, instead of the recipe's.",
    lower_bound=1,
)
_MEM_LEN = flags.DEFINE_integer(
    "mem_len",
    None,
    "Tokens before a segment that are remembered, instead of the recipe's.",
    lower_bound=0,
)
_RATE = flags.DEFINE_float("learning_rate", None, "The highest, instead of the recipe's.")
_UNIT = flags.DEFINE_enum(
    "unit", None, ["word", "character", "byte"], "What a token is, instead of the recipe's."
)
_CUTOFFS = flags.DEFINE_list(
    "cutoffs", None, "Where the adaptive softmax's clusters begin, instead of the recipe's."
)
_DIV_VAL = flags.DEFINE_integer(
    "div_val",
    None,
    "By what each cluster's vectors are smaller, instead of the recipe's.",
    lower_bound=1,
)
_MAX_SYMBOLS = flags.DEFINE_integer(
    "max_symbols", None, "The most symbols of a vocabulary that is made here."
)
_EVERY = flags.DEFINE_integer("every", 250, "Steps between measurements.", lower_bound=1)
_SEED = flags.DEFINE_integer("seed", 0, "Of random initial weights and dropout.")
_DTYPE = flags.DEFINE_string("dtype", "float32", "A Keras dtype policy, such as mixed_bfloat16.")


def main(argv: list[str]) -> None:
    program.no_arguments(argv)
    logging.set_verbosity(logging.WARNING)
    import keras

    from bert_zoo.data.language_modelling import encode_file
    from bert_zoo.models.replicas import is_chief
    from bert_zoo.text.language_model import LanguageModelPreprocessor
    from bert_zoo.training import language_modelling

    strategy = named_strategy()
    recipe = changed_recipe()
    tokenizer = make_tokenizer(recipe)
    streams = [encode_file(path, tokenizer) for path in (_TRAIN.value, _VALID.value) if path]
    if len(streams) == 1:
        cut = math.ceil(len(streams[0]) * (1 - _HELD_OUT.value))
        streams = [streams[0][:cut], streams[0][cut:]]
    keras.utils.set_random_seed(_SEED.value)
    preprocessor = LanguageModelPreprocessor(tokenizer, sequence_length=2048)
    with strategy.scope():
        model = language_modelling.new_model(recipe, preprocessor, _DTYPE.value)
    directory = Path(_OUTPUT_DIR.value or f"runs/lm-{_RECIPE.value}")
    print(
        f"Training {model.count_params():,} parameters for {recipe.total_steps:,} steps on "
        f"{len(streams[0]):,} {tokenizer.unit}s of {tokenizer.vocab_size:,} kinds; "
        f"{len(streams[1]):,} are held out."
    )
    language_modelling.train(
        recipe,
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
    reading = recipe.evaluation
    without = dataclasses.replace(reading, mem_len=0, same_length=False)
    figures = {
        f"memory of {r.mem_len}": language_modelling.evaluate(best, streams[1], r, verbose=0)
        for r in (reading, without)
    }
    language_modelling.write_json(directory / "metrics.json", figures)
    print(f"\nHeld-out text, in segments of {reading.segment_length}:")
    for name, row in figures.items():
        print(f"  {name:<18} {row['bits']:.4f} bits a {tokenizer.unit}, perplexity "
              f"{row['perplexity']:.2f}, {row['seconds']:.1f} s")  # fmt: skip
    print(f"\nThe run is in {directory}; the model that measured best in {directory / 'model'}.")


def changed_recipe():
    """The recipe, with what the options say instead."""
    from bert_zoo.training.language_model_recipes import RECIPES

    if _RECIPE.value not in RECIPES:
        raise ValueError(f"There is no recipe {_RECIPE.value!r}; there are {list(RECIPES)}.")
    recipe = RECIPES[_RECIPE.value]
    changes = {
        "total_steps": _STEPS.value,
        "batch_size": _BATCH_SIZE.value,
        "segment_length": _SEGMENT.value,
        "learning_rate": _RATE.value,
        "unit": _UNIT.value,
    }
    config = {
        "mem_len": _MEM_LEN.value,
        "cutoffs": None if _CUTOFFS.value is None else tuple(map(int, _CUTOFFS.value)),
        "div_val": _DIV_VAL.value,
    }
    return dataclasses.replace(
        recipe,
        config={**recipe.config, **{k: v for k, v in config.items() if v is not None}},
        **{name: value for name, value in changes.items() if value is not None},
    )


def make_tokenizer(recipe):
    """The vocabulary that was named, or one of the training text's symbols."""
    from bert_zoo.data.language_modelling import build_vocabulary
    from bert_zoo.text import SymbolTokenizer, tokenizer_from_dir

    if _VOCABULARY.value:
        return tokenizer_from_dir(_VOCABULARY.value, "transformer_xl")
    words = recipe.unit == "word"
    reading = {"unit": recipe.unit, "space_token": recipe.space_token}
    special = {"unknown_token": "<unk>" if words else None}
    symbols = build_vocabulary(
        [path for path in (_TRAIN.value, None if words else _VALID.value) if path],
        max_size=_MAX_SYMBOLS.value,
        special=("<eos>",) if words else (),
        **reading,
        **special,
    )
    return SymbolTokenizer(
        symbols,
        eos_token="<eos>" if words else None,
        eos_at="newlines" if words else "never",
        **reading,
        **special,
    )


if __name__ == "__main__":
    program.run(
        main,
        on_interrupt="Stopped. Run the same command to go on from the last checkpoint.",
    )
