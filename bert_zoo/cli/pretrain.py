"""Pretrains a model on your own text, from a checkpoint or from scratch.

bert_zoo pretrain --model minilm_l6 --text "my/*.txt" --minutes 30
bert_zoo pretrain --model roberta_base --text corpus.jsonl --steps 2000 --general_text wiki.txt
bert_zoo pretrain --recipe bert --size nano --text "my/*.txt" --minutes 60
bert_zoo pretrain --recipe transformer_xl --size nano --text "my/*.txt" --steps 5000
bert_zoo pretrain --recipe characters_nano --text text.txt
bert_zoo pretrain --recipe xlm --size nano --text train.en.gz,train.de.gz --languages en,de --steps 5000

From a checkpoint, tokens are masked as in its family; from scratch, as in its
paper. Part of the text is held out to measure predictions. To resume a stopped
run, repeat the command. docs/pretraining.md explains how to get good results.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from bert_zoo.cli import program
from bert_zoo.cli.program import Program, command
from bert_zoo.config import UNLIMITED
from bert_zoo.family import Family
from bert_zoo.presets import (
    ADAPTATION,
    BIDIRECTIONAL_ADAPTATION,
    PAIRS,
    PRETRAINING_SIZES,
    ROW_ADAPTATION,
    ROWS,
    STREAM_ADAPTATION,
    LanguageModelPreset,
    Recipe,
)
from bert_zoo.pretraining.corpus import (
    DATA_SET,
    FORMS,
    MASKED_ROWS,
    STREAM,
    TOKEN_SHARDS,
    Corpus,
    ParallelLines,
    files_of,
)
from bert_zoo.registry import registry

# The settings of a training, and a function that makes its model.
Plan = tuple[Any, Callable[[], Any]]
# Models that read more tokens are meant for long rows.
LONG_ROW = 512
PRESETS = {
    name: family.pretraining_preset
    for name, family in registry().families.items()
    if family.pretraining_preset is not None
}
OWN_ROWS = [rows for preset in PRESETS.values() for rows in preset.own_rows]
# Rows of text in several languages.
MULTILINGUAL = [rows.name for rows in OWN_ROWS if rows.multilingual]
# Language models: family -> size -> preset.
STREAM_PRESETS = {
    name: {preset.size: preset for preset in family.language_model_presets if preset.size}
    for name, family in registry().families.items()
    if family.language_model_presets
}
# Language models that are not a size of a family: name -> preset.
NAMED_PRESETS = {
    preset.name: preset
    for family in registry().families.values()
    for preset in family.language_model_presets
    if not preset.size
}
PROGRAM = Program(
    __doc__,
    required=("text",),
    on_interrupt="Stopped. Run the same command to resume after the last checkpoint. The results are the "
    "same as without the stop.",
)
_MODEL = PROGRAM.string(
    "model", None, "Checkpoint to train further, by name or directory.", check=program.model
)
_RECIPE = PROGRAM.enum(
    "recipe",
    None,
    [*PRESETS, *STREAM_PRESETS, *NAMED_PRESETS],
    "Train from scratch, with this family's recipe or this preset of a language model.",
)
_SIZE = PROGRAM.enum("size", "nano", PRETRAINING_SIZES, "Size of a model trained from scratch.")
_TEXT = PROGRAM.list(
    "text", None, "Files, folders or patterns; or tfds: and a data set's name.", check=program.text
)
_FORM = PROGRAM.enum(
    "form",
    None,
    [*FORMS, STREAM, MASKED_ROWS, TOKEN_SHARDS],
    "What a line of the text holds; by default its first lines decide. With stream, a language model of "
    "words, characters or bytes reads whole files from start to end. masked_rows and tokens are written by "
    "create_pretraining_data.",
)
_ENCODING = PROGRAM.string(
    "encoding", None, "Encoding of the text, such as latin-1; by default UTF-8."
)
_GENERAL = PROGRAM.list(
    "general_text",
    None,
    "Other text, to measure what the model forgets; not trained on.",
    check=program.text,
)
_HELD_OUT = PROGRAM.float(
    "held_out", 0.05, "Fraction of documents to measure on.", lower_bound=0, upper_bound=0.9
)
_STEPS = PROGRAM.integer("steps", None, "Number of updates.", lower_bound=1)
_MINUTES = PROGRAM.float(
    "minutes", None, "Training time, instead of steps; the learning rate reaches 0 at its end."
)
_OBJECTIVE = PROGRAM.string(
    "objective", None, "How tokens are masked: a key of bert_zoo.tasks.objectives.OBJECTIVES."
)
_ROWS = PROGRAM.enum(
    "rows",
    None,
    [*ROWS, *(rows.name for rows in OWN_ROWS)],
    "Kind of row; by default the family's.",
)
_LANGUAGES = PROGRAM.list(
    "languages",
    None,
    "Languages of a text with one file per language and line-by-line translations, in the order of the files. By "
    "default some rows hold one language and some a translation pair; --rows languages leaves out the pairs.",
)
_LENGTH = PROGRAM.integer(
    "length",
    None,
    "Tokens per row (for a language model: per segment) throughout the training.",
    lower_bound=8,
)
_VOCABULARY = PROGRAM.string(
    "vocabulary",
    None,
    "A vocabulary's directory, for training from scratch; by default built from the text.",
    check=program.exists,
)
_OUTPUT_DIR = PROGRAM.string("output_dir", None, "Run directory, by default runs/pretrain-NAME.")
_SEED = PROGRAM.integer(
    "seed", 0, "Seed of initial weights, rows, masks and dropout.", lower_bound=0
)
_CHECKPOINT_MINUTES = PROGRAM.float(
    "checkpoint_minutes", 5.0, "Minutes between checkpoints.", lower_bound=0
)
# Fields of a recipe that pretraining reads.
SETTINGS = (
    *("batch_size", "gradient_accumulation_steps", "optimizer", "learning_rate", "schedule"),
    *("warmup_proportion", "weight_decay", "clip_norm", "steps_per_execution", "dtype"),
)
PROGRAM.define_fields(Recipe, SETTINGS)
_MEMORY = PROGRAM.integer(
    "mem_len", None, "Memory in tokens: how many before a segment the model remembers."
)
_CUTOFFS = PROGRAM.list(
    "cutoffs",
    None,
    "Token ids at which the clusters of the adaptive softmax begin; empty for none.",
    check=program.whole_number,
)
_DIV_VAL = PROGRAM.integer(
    "div_val", None, "Factor by which vectors get smaller from one cluster to the next."
)
# Settings and flags above that language models also have.
_STREAM_SETTINGS = ("batch_size", "learning_rate", "clip_norm")
_OF_STREAMS = (*_STREAM_SETTINGS, "steps_per_execution", "dtype")
_NOT_OF_STREAMS = (
    "objective",
    "rows",
    "languages",
    *(name for name in SETTINGS if name not in _OF_STREAMS),
)
PROGRAM.define_strategy()
PROGRAM.groups = {
    "Main flags": (
        *("model", "recipe", "size", "text", "general_text", "held_out", "steps", "minutes"),
        *("length", "vocabulary", "output_dir"),
    ),
    "Language models from scratch": ("mem_len", "cutoffs", "div_val"),
    "Recipe settings": SETTINGS,
}


def main(arguments: list[str]) -> None:
    _check_flags()
    text = _TEXT.value[0] if _TEXT.value[0].startswith(DATA_SET) else _TEXT.value
    preset, form = NAMED_PRESETS.get(_RECIPE.value), _FORM.value
    if preset is not None and preset.unit != "word":
        form = form or STREAM
    name = _MODEL.value or (_RECIPE.value if preset else f"{_RECIPE.value}_{_SIZE.value}")
    directory = Path(_OUTPUT_DIR.value or f"runs/pretrain-{Path(name).name}")
    reading, corpus = {"form": form, "encoding": _ENCODING.value}, None
    if _LANGUAGES.value:
        corpus = Corpus(ParallelLines(text, _LANGUAGES.value), held_out=_HELD_OUT.value)
    elif form not in (STREAM, MASKED_ROWS, TOKEN_SHARDS):
        corpus = Corpus(text, held_out=_HELD_OUT.value, **reading)
    strategy = PROGRAM.strategy()
    from bert_zoo.cli.report import write_pretraining_report
    from bert_zoo.models.replicas import is_chief
    from bert_zoo.pretraining.run import pretrain

    is_stream = _reads_streams()
    if form == (MASKED_ROWS if is_stream else STREAM):
        raise ValueError(
            f"--form {form} is for models that predict {'masked tokens' if is_stream else 'the next token'}. "
            "Leave it out."
        )
    plan = PLANS[is_stream, _MODEL.value is not None]
    settings, make_model = plan(corpus, directory)
    results = pretrain(
        name,
        make_model,
        settings,
        text,
        directory,
        goes_on=_MODEL.value is not None,
        general_text=_GENERAL.value,
        reading=reading,
        held_out=_HELD_OUT.value,
        seed=_SEED.value,
        checkpoint_seconds=60 * _CHECKPOINT_MINUTES.value,
        strategy=strategy,
        report=write_pretraining_report,
        least_batch_size=1 if PROGRAM.flags.batch_size is None else None,
    )
    if is_chief(strategy):
        print_results(results, directory)
        model = directory / "model"
        if not is_stream:
            print(f"Fine-tune it: {command('finetune')} --model {model} --task messages")
        elif settings.recipe.bidirectional:
            print(f'Use it: bert_zoo.load("{model}").embed_words(["Words between spaces ."])')
        elif settings.recipe.unit == ROW_ADAPTATION.unit:
            print(f'Try it: bert_zoo.load("{model}").generate("Once upon", sampler="top_p")')
        else:
            print(f"Measure it: {command('evaluate')} --model {model} --text_file other.txt")


def print_results(results: Mapping[str, Any], directory: Path) -> None:
    for sentence in results["sentences"]:
        found = {
            when: ", ".join(f"{token} {score:.2f}" for token, score in sentence[when])
            for when in ("before", "after")
        }
        print(f"\n{sentence['text']}  ({sentence['word']})")
        print(f"  before: {found['before']}\n  after:  {found['after']}")
    # Speed is not measured if each call of the program trained a single step.
    speed = results["tokens_per_second"]
    shown = f", {speed:,.0f} tokens a second" if speed else ""
    print(f"\n{results['steps']:,} steps, {results['tokens']:,} tokens{shown}.")
    print(f"The run is in {directory}, with a report: {directory / 'report.html'}")


def _check_flags() -> None:
    """Raises ValueError for flags that clash or need others."""
    if (_MODEL.value is None) == (_RECIPE.value is None):
        raise ValueError(
            "Give either --model, to train a checkpoint further, or --recipe, to train from scratch."
        )
    if _STEPS.value is not None and _MINUTES.value is not None:
        raise ValueError("--steps and --minutes both set the length of training. Leave one out.")
    if not _LANGUAGES.value and _ROWS.value in MULTILINGUAL:
        raise ValueError(
            f"--rows {_ROWS.value} needs text in several languages. Name the languages of the files in --text, "
            "for example --languages en,de."
        )
    unread = {"general_text": _GENERAL.value, "form": _FORM.value, "encoding": _ENCODING.value}
    given = [f"--{name}" for name, value in unread.items() if value is not None]
    if _ROWS.value not in (None, *MULTILINGUAL):
        given.append(f"--rows {_ROWS.value}")
    if _LANGUAGES.value and given:
        raise ValueError(f"{', '.join(given)} cannot be used with --languages. Leave one out.")
    if _MODEL.value and _STEPS.value is None and _MINUTES.value is None:
        raise ValueError("Set the length of training, for example --minutes 30 or --steps 1000.")
    if _SIZE.value not in (sizes := STREAM_PRESETS.get(_RECIPE.value, PRETRAINING_SIZES)):
        raise ValueError(
            f"--size is {_SIZE.value}, but {_RECIPE.value} comes in {', '.join(sizes)}. Choose one of these."
        )
    PROGRAM.check()


def _reads_streams() -> bool:
    """Whether the model is a language model, in one direction or both."""
    if _RECIPE.value:
        return _RECIPE.value in {**STREAM_PRESETS, **NAMED_PRESETS}
    from bert_zoo.loading.directories import open_checkpoint
    from bert_zoo.models import CausalLM

    family = open_checkpoint(_MODEL.value, with_weights=False).family
    return CausalLM.task in family.heads or _reads_both_directions(family)


def _reads_both_directions(family: Family) -> bool:
    return any(preset.bidirectional for preset in family.language_model_presets)


# --- Masked tokens ---


def adapted(corpus: Corpus | None, directory: Path) -> Plan:
    """A checkpoint, with `ADAPTATION`, the flags and the kind of rows of its family."""
    from bert_zoo.loading.directories import open_checkpoint
    from bert_zoo.loading.load import missing_parts
    from bert_zoo.models import MaskedLM, Pretraining
    from bert_zoo.pretraining.models import model_to_go_on_with

    name = _MODEL.value
    opened = open_checkpoint(name, with_weights=True)
    preset = opened.family.pretraining_preset
    rows = preset.rows if preset else "full_sentences"
    if rows in PAIRS and missing_parts(name, Pretraining.task):
        rows = "full_sentences"
    longest = opened.config.longest_input
    length = min(_LENGTH.value or ADAPTATION.max_length, longest)
    if _LENGTH.value is None and LONG_ROW < longest < UNLIMITED:
        print(
            f"Training on rows of {length} tokens, although the model reads {longest:,}. For longer rows add --length "
            f"{longest}; to save memory then, see --batch_size and --gradient_accumulation_steps."
        )
    # A generator's head is not a new one.
    tasks = [task for task in (MaskedLM.task, Pretraining.task) if task in opened.family.heads]
    is_new = bool(tasks) and all(missing_parts(name, task) for task in tasks)
    settings = _masked_settings(ADAPTATION, rows, ((length, 1.0),), "", is_new)
    if is_new:
        print("The new masked-token head starts from the frequency of each token in the text.")
    return settings, partial(model_to_go_on_with, name, settings.objective, settings.recipe.dtype)


def new(corpus: Corpus | None, directory: Path) -> Plan:
    """A new model, with the recipe's preset and the flags."""
    from bert_zoo.pretraining.models import new_model
    from bert_zoo.pretraining.vocabularies import train_vocabulary
    from bert_zoo.text import preprocessor_from_dir

    family = registry().families[_RECIPE.value]
    preset, size = PRESETS[_RECIPE.value].of_size(_SIZE.value)
    config = dict(size.config)
    if _LANGUAGES.value:
        if "num_languages" not in family.config_class.__dataclass_fields__:
            raise ValueError(
                f"Models of {_RECIPE.value} have no language embeddings. Leave --languages out to read the files "
                "as one text, or choose another recipe, such as xlm."
            )
        config["num_languages"] = len(_LANGUAGES.value)
    phases = ((_LENGTH.value, 1.0),) if _LENGTH.value else preset.phases
    starts = size.starts_from_frequencies
    settings = _masked_settings(preset.recipe, preset.rows, phases, size.objective, starts)
    print(f"Recipe {_RECIPE.value} of size {_SIZE.value}: {preset.source}.")
    full = family.config_class(**{**family.defaults, **config})

    def build(path: Path) -> str:
        tokens = train_vocabulary(
            (sentence for document in corpus for sentence in document),
            preset.vocabulary,
            path,
            vocab_size=full.vocab_size,
            lowercase=preset.lowercase,
            languages=_LANGUAGES.value or (),
        )
        return f"{len(tokens):,} tokens from the text"

    path = _vocabulary(directory, build)

    def make_model():
        preprocessor = preprocessor_from_dir(path, family.name, sequence_length=full.longest_input)
        return new_model(family, config, preprocessor, settings.recipe.dtype)

    return settings, make_model


def _masked_settings(
    recipe: Recipe,
    rows: str,
    phases: tuple[tuple[int, float], ...],
    objective: str,
    starts_from_frequencies: bool,
) -> Any:
    from bert_zoo.pretraining.masked import MaskedSettings

    if recipe.warmup_steps is not None:
        # Keep the fraction of warmup in a training of another length.
        share = recipe.warmup_steps / recipe.total_steps
        recipe = recipe.replace(warmup_steps=None, warmup_proportion=share)
    changes = PROGRAM.given(Recipe)
    if _STEPS.value is not None:
        changes["total_steps"] = _STEPS.value
    languages = tuple(_LANGUAGES.value or ())
    return MaskedSettings(
        recipe.replace(**changes),
        rows=_ROWS.value or (MULTILINGUAL[-1] if languages else rows),
        languages=languages,
        phases=phases,
        objective=_OBJECTIVE.value or objective,
        seconds=_seconds(),
        starts_from_frequencies=starts_from_frequencies,
    )


def _seconds() -> float | None:
    return None if _MINUTES.value is None else 60 * _MINUTES.value


def _vocabulary(directory: Path, build: Callable[[Path], str]) -> Path:
    """The directory of the given vocabulary, or of one kept with the run, which `build` builds and describes."""
    from bert_zoo.pretraining.run import VOCABULARY

    path = Path(_VOCABULARY.value or directory / VOCABULARY)
    if _FORM.value in (MASKED_ROWS, TOKEN_SHARDS) and not _VOCABULARY.value:
        raise ValueError(
            f"The text of --form {_FORM.value} was made with a vocabulary. Name its directory with --vocabulary."
        )
    if not _VOCABULARY.value and not path.is_dir():
        partly = path.with_name(f"{path.name}.partial")
        about = build(partly)
        partly.rename(path)
        print(f"Built a vocabulary of {about}: {path}.")
    return path


# --- Language models ---


def adapted_stream(corpus: Corpus | None, directory: Path) -> Plan:
    """A checkpoint, with its adaptation preset and the flags."""
    import bert_zoo
    from bert_zoo.loading.directories import open_checkpoint
    from bert_zoo.models import CausalLM

    opened = open_checkpoint(_MODEL.value, with_weights=False)
    load = partial(bert_zoo.load, _MODEL.value, dtype=_dtype())
    if _reads_both_directions(opened.family):
        path = _words_of_text(BIDIRECTIONAL_ADAPTATION, corpus, directory)
        return _bidirectional(BIDIRECTIONAL_ADAPTATION, path, load)
    positions, preset = opened.config.longest_input, STREAM_ADAPTATION
    if positions != UNLIMITED:
        preset = replace(ROW_ADAPTATION, segment_length=positions)
    settings = _stream_settings(preset)
    if settings.recipe.segment_length > positions:
        raise ValueError(
            f"--length is {settings.recipe.segment_length}, but the model has only {positions} positions. Choose at "
            "most that many."
        )
    return settings, partial(load, task=CausalLM.task)


def new_stream(corpus: Corpus | None, directory: Path) -> Plan:
    """A new model, with the recipe's preset and the flags."""
    from bert_zoo.pretraining.causal import new_encoder
    from bert_zoo.pretraining.models import fitted, new_language_model
    from bert_zoo.text import preprocessor_from_dir

    preset = NAMED_PRESETS.get(_RECIPE.value) or STREAM_PRESETS[_RECIPE.value][_SIZE.value]
    known = registry().families[preset.family].config_class.__dataclass_fields__
    flags = {flag.name: flag.value for flag in (_MEMORY, _CUTOFFS, _DIV_VAL)}
    given = {name: value for name, value in flags.items() if value is not None}
    if unread := given.keys() - known.keys():
        raise ValueError(
            f"Models of {preset.family} do not use {', '.join(f'--{name}' for name in sorted(unread))}. Leave "
            "that out."
        )
    if "cutoffs" in given:
        given["cutoffs"] = tuple(int(cutoff) for cutoff in given["cutoffs"] if cutoff)
    path = _words_of_text(preset, corpus, directory)
    if preset.bidirectional:
        return _bidirectional(preset, path, partial(new_encoder, preset, path, _dtype()))
    preprocessor = preprocessor_from_dir(path, preset.family, sequence_length=2048)
    preset = replace(preset, config={**preset.config, **given})
    preset = fitted(preset, preprocessor.tokenizer.vocab_size)
    return _stream_settings(preset), partial(new_language_model, preset, preprocessor, _dtype())


def _bidirectional(
    preset: LanguageModelPreset, vocabulary: Path, make_encoder: Callable[[], Any]
) -> Plan:
    """An encoder, to which a softmax over the text's words is added."""
    from bert_zoo.pretraining.causal import bidirectional_lm

    settings = _stream_settings(preset)
    return settings, lambda: bidirectional_lm(make_encoder(), settings.recipe, vocabulary)


def _words_of_text(preset: LanguageModelPreset, corpus: Corpus | None, directory: Path) -> Path:
    """The directory of the given vocabulary, or of one of the text's most frequent tokens."""

    def build(path: Path) -> str:
        tokenizer, counts = _counted_tokenizer(preset, corpus)
        tokenizer.save(path)
        known = sum(counts[token] for token in tokenizer.vocabulary) / counts.total()
        return (
            f"{tokenizer.vocab_size:,} of the text's {len(counts):,} distinct {preset.unit}s. It covers {known:.1%} "
            "of the text"
        )

    return _vocabulary(directory, build)


def _counted_tokenizer(
    preset: LanguageModelPreset, corpus: Corpus | None
) -> tuple[Any, Counter[str]]:
    """A tokenizer of the text's most frequent tokens, and the count of each token."""
    from bert_zoo.cli.build_vocabulary import counted_tokenizer
    from bert_zoo.pretraining.causal import BOUNDARY, UNKNOWN
    from bert_zoo.pretraining.vocabularies import select_tokens
    from bert_zoo.text import WordLevelTokenizer

    if corpus is None:
        sources = [_TEXT.value]
        if preset.unit != "word" and _GENERAL.value:
            sources.append(_GENERAL.value)  # no character is unknown
        return counted_tokenizer(
            [path for source in sources for path in files_of(source)],
            unit=preset.unit,
            space_token=preset.space_token,
            max_size=preset.vocab_size,
        )
    counts = Counter(word for document in corpus for line in document for word in line.split())
    # A bidirectional encoder also reads words that it does not predict.
    selection = {"max_size": preset.vocab_size}
    if preset.bidirectional:
        selection = {"special": (BOUNDARY, UNKNOWN)}
    return WordLevelTokenizer(select_tokens(counts, **selection), eos_at="newlines"), counts


def _stream_settings(preset: LanguageModelPreset) -> Any:
    from bert_zoo.pretraining.causal import StreamSettings

    flags = PROGRAM.flags
    if unread := [name for name in _NOT_OF_STREAMS if flags[name].value is not None]:
        raise ValueError(
            f"Language models are trained without {', '.join(f'--{name}' for name in unread)}. Leave that out."
        )
    given = {name: flags[name].value for name in _STREAM_SETTINGS}
    given["segment_length"] = _LENGTH.value
    changes = {name: value for name, value in given.items() if value is not None}
    if _STEPS.value is not None:
        preset = preset.with_steps(_STEPS.value)
    steps = flags.steps_per_execution or Recipe.steps_per_execution
    return StreamSettings(replace(preset, **changes), _seconds(), steps_per_execution=steps)


def _dtype() -> str:
    return PROGRAM.flags.dtype or Recipe.dtype


# (Whether it is a language model, whether it is a checkpoint) -> a function that plans its training.
PLANS = {
    (False, True): adapted,
    (False, False): new,
    (True, True): adapted_stream,
    (True, False): new_stream,
}
