"""Pretrains a model on your own text, from a checkpoint or from scratch.

bert_zoo pretrain --model minilm_l6 --text "my/*.txt" --minutes 30
bert_zoo pretrain --model roberta_base --text corpus.jsonl --steps 2000 --general_text wiki.txt
bert_zoo pretrain --recipe bert --size nano --text "my/*.txt" --minutes 60
bert_zoo pretrain --recipe transformer_xl --size nano --text "my/*.txt" --steps 5000
bert_zoo pretrain --recipe characters_nano --text text.txt
bert_zoo pretrain --recipe xlm --size nano --text train.en.gz,train.de.gz --languages en,de --steps 5000

From a checkpoint, tokens are masked as in its family; from scratch, as in its
paper. Language models predict each token from those before it. Part of the text
is held out to measure predictions before and after. To resume a stopped run,
repeat the command. docs/pretraining.md explains how to get good results.
"""

import math
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bert_zoo.cli import program
from bert_zoo.cli.program import Program, command
from bert_zoo.config import UNLIMITED
from bert_zoo.presets import (
    ADAPTATION,
    BIDIRECTIONAL_ADAPTATION,
    PAIRS,
    PRETRAINING_SIZES,
    ROW_ADAPTATION,
    ROWS,
    STREAM_ADAPTATION,
    LanguageModelPreset,
    Reading,
    Recipe,
)
from bert_zoo.pretraining.corpus import DATA_SET, FORMS, MASKED_ROWS, STREAM, Corpus
from bert_zoo.registry import registry

if TYPE_CHECKING:
    from bert_zoo.family import Family
    from bert_zoo.models import CausalLM, Encoder
    from bert_zoo.pretraining.causal import StreamSettings
    from bert_zoo.pretraining.masked import MaskedSettings
    from bert_zoo.pretraining.run import FinishedRun
    from bert_zoo.tasks.bidirectional_lm import BidirectionalLM
    from bert_zoo.tasks.objectives.objective import ObjectiveModel
    from bert_zoo.text import WordLevelTokenizer


# --- `bert_zoo evaluate` for recurrent language models ---


def define_flags(evaluation: Program) -> list[str]:
    """Defines the flags for evaluating a language model and returns their names."""
    before = {*evaluation.flags}
    evaluation.string(
        "model",
        None,
        "A recurrent language model, by name or directory.",
        check=program.model,
    )
    evaluation.string(
        "text_file",
        None,
        "The text to predict, in the form of the training text.",
        check=program.exists,
    )
    evaluation.float("last", 1.0, "Fraction of the file to read, from its end.")
    evaluation.integer("segment_length", 128, "Tokens per row and step.", lower_bound=1)
    evaluation.list(
        "mem_len",
        None,
        "Memory lengths in tokens; by default the model's own.",
        check=program.whole_number,
    )
    evaluation.integer(
        "clamp_len", None, "Largest distance between tokens; by default the model's own."
    )
    evaluation.bool(
        "same_length", None, "Whether all tokens see equally many others; by default as the model."
    )
    evaluation.integer("batch_size", 10, "Rows per step.", lower_bound=1)
    return [name for name in evaluation.flags if name not in before]


def evaluate(flags: Any, directory: Path | None) -> None:
    """Prints how well the model predicts the text, and writes it to the directory if there is one."""
    import bert_zoo
    from bert_zoo.pretraining.models import evaluate as evaluated
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
        read = replace(reading, mem_len=mem_len, same_length=reading.same_length and mem_len > 0)
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


CURVE = "learning_curve.png"
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
    [*FORMS, STREAM, MASKED_ROWS],
    "What a line of the text holds; by default its first lines decide. With stream, a language model of "
    "words, characters or bytes reads whole files from start to end. masked_rows are files written by "
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
    if (_MODEL.value is None) == (_RECIPE.value is None):
        raise ValueError(
            "Give either --model, to train a checkpoint further, or --recipe, to train from scratch."
        )
    if _STEPS.value is not None and _MINUTES.value is not None:
        raise ValueError("--steps and --minutes both set the length of training. Leave one out.")
    _check_languages()
    if _MODEL.value and _STEPS.value is None and _MINUTES.value is None:
        raise ValueError("Set the length of training, for example --minutes 30 or --steps 1000.")
    if _RECIPE.value in STREAM_PRESETS:
        stream_preset()
    PROGRAM.check()
    text = _TEXT.value[0] if _TEXT.value[0].startswith(DATA_SET) else _TEXT.value
    reading = {"form": _FORM.value, "encoding": _ENCODING.value}
    preset = NAMED_PRESETS.get(_RECIPE.value)
    if preset is not None and preset.unit != "word":
        reading["form"] = reading["form"] or STREAM
    name = _MODEL.value or (_RECIPE.value if preset else f"{_RECIPE.value}_{_SIZE.value}")
    directory = Path(_OUTPUT_DIR.value or f"runs/pretrain-{Path(name).name}")
    corpus = None
    if _LANGUAGES.value:
        from bert_zoo.pretraining.corpus import ParallelLines

        corpus = Corpus(ParallelLines(text, _LANGUAGES.value), held_out=_HELD_OUT.value)
    elif reading["form"] not in (STREAM, MASKED_ROWS):
        corpus = Corpus(text, held_out=_HELD_OUT.value, **reading)
    strategy = PROGRAM.strategy()
    from bert_zoo.models.replicas import is_chief
    from bert_zoo.pretraining.models import model_to_go_on_with
    from bert_zoo.pretraining.run import pretrain

    is_stream = reads_streams()
    if reading["form"] == (MASKED_ROWS if is_stream else STREAM):
        raise ValueError(
            f"--form {reading['form']} is for models that predict {'masked tokens' if is_stream else 'the next token'}. "
            "Leave it out."
        )
    if is_stream:
        stream = stream_to_go_on if _MODEL.value else new_stream
        settings, make_model = stream(corpus, directory)
    elif _MODEL.value:
        settings = settings_to_go_on()

        def make_model():
            return model_to_go_on_with(name, settings.objective, settings.recipe.dtype)
    else:
        settings, config = settings_from_nothing()
        make_model = model_maker(config, corpus, directory, settings.recipe.dtype)
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
        report=write_report,
        least_batch_size=1 if PROGRAM.flags.batch_size is None else None,
    )
    if not is_chief(strategy):
        return
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
    if is_stream:
        model = f"{directory / 'model'}"
        if settings.recipe.bidirectional:
            print(f'Use it: bert_zoo.load("{model}").embed_words(["Words between spaces ."])')
        elif settings.recipe.unit == ROW_ADAPTATION.unit:
            print(f'Try it: bert_zoo.load("{model}").generate("Once upon", sampler="top_p")')
        else:
            print(f"Measure it: {command('evaluate')} --model {model} --text_file other.txt")
    else:
        print(f"Fine-tune it: {command('finetune')} --model {directory / 'model'} --task messages")


def write_report(run: "FinishedRun") -> None:
    """Writes `report.html`, `learning_curve.png` and the card of a run's model."""
    from bert_zoo.cli import report
    from bert_zoo.cli.finetuning import card_of, draw
    from bert_zoo.loading.locating import RUN_MODEL

    results = run.results

    def plot(axes):
        rows = results["measured"]
        losses = [row.get("loss", math.nan) for row in rows]
        axes.plot([row["step"] for row in rows], losses, ":", label="training")
        for metric in (name for name in rows[-1] if name.endswith(" loss")):
            found = [(0, results["before"][metric])]
            found += [(row["step"], row[metric]) for row in rows if metric in row]
            axes.plot(*zip(*found, strict=True), label=metric)
        axes.set(xlabel="step", ylabel="loss")

    curve = run.directory / CURVE
    draw(curve, (6, 3.5), plot)
    if has_curve := curve.is_file():
        shutil.copy(curve, run.directory / RUN_MODEL)
    origin = run.config.get("teacher", run.name if run.goes_on else None)
    base, shown = origin and card_of(origin), CURVE if has_curve else None
    record = report.PretrainingRecord(run.name, run.use, base, run.config, results, shown)
    report.write_report(record, run.directory)


def _check_languages() -> None:
    """Raises ValueError for flags that clash with --languages or need it."""
    if not _LANGUAGES.value:
        if _ROWS.value in MULTILINGUAL:
            raise ValueError(
                f"--rows {_ROWS.value} needs text in several languages. Name the languages of the files in --text, "
                "for example --languages en,de."
            )
        return
    unread = {"general_text": _GENERAL.value, "form": _FORM.value, "encoding": _ENCODING.value}
    given = [f"--{name}" for name, value in unread.items() if value is not None]
    if _ROWS.value not in (None, *MULTILINGUAL):
        given.append(f"--rows {_ROWS.value}")
    if given:
        raise ValueError(f"{', '.join(given)} cannot be used with --languages. Leave one out.")


def reads_streams() -> bool:
    """Whether the model is a language model, in one direction or both."""
    if _RECIPE.value:
        return _RECIPE.value in {**STREAM_PRESETS, **NAMED_PRESETS}
    from bert_zoo.loading.directories import open_checkpoint
    from bert_zoo.models import CausalLM

    family = open_checkpoint(_MODEL.value, with_weights=False).family
    return CausalLM.task in family.heads or reads_both_directions(family)


def reads_both_directions(family: "Family") -> bool:
    return any(preset.bidirectional for preset in family.language_model_presets)


def settings_to_go_on() -> "MaskedSettings":
    """The settings of `ADAPTATION` with the flags and the kind of rows of the checkpoint's family."""
    from bert_zoo.loading.directories import open_checkpoint
    from bert_zoo.loading.load import missing_parts
    from bert_zoo.models import MaskedLM, Pretraining

    opened = open_checkpoint(_MODEL.value, with_weights=True)
    preset = opened.family.pretraining_preset
    rows = preset.rows if preset else "full_sentences"
    if rows in PAIRS and missing_parts(_MODEL.value, Pretraining.task):
        rows = "full_sentences"
    longest = opened.config.longest_input
    length = min(_LENGTH.value or ADAPTATION.max_length, longest)
    if _LENGTH.value is None and LONG_ROW < longest < UNLIMITED:
        print(
            f"Training on rows of {length} tokens, although the model reads {longest:,}. For longer rows add --length "
            f"{longest}; to save memory then, see --batch_size and --gradient_accumulation_steps."
        )
    settings = _with_flags(ADAPTATION, rows, ((length, 1.0),), "")
    # A generator's head is not a new one.
    tasks = [task for task in (MaskedLM.task, Pretraining.task) if task in opened.family.heads]
    if tasks and all(missing_parts(_MODEL.value, task) for task in tasks):
        print("The new masked-token head starts from the frequency of each token in the text.")
        settings = replace(settings, starts_from_frequencies=True)
    return settings


def settings_from_nothing() -> tuple["MaskedSettings", dict[str, Any]]:
    """The settings of the recipe's preset with the flags, and the model's configuration."""
    preset, size = PRESETS[_RECIPE.value].of_size(_SIZE.value)
    config = dict(size.config)
    if _LANGUAGES.value:
        fields = registry().families[_RECIPE.value].config_class.__dataclass_fields__
        if "num_languages" not in fields:
            raise ValueError(
                f"Models of {_RECIPE.value} have no language embeddings. Leave --languages out to read the files "
                "as one text, or choose another recipe, such as xlm."
            )
        config["num_languages"] = len(_LANGUAGES.value)
    phases = ((_LENGTH.value, 1.0),) if _LENGTH.value else preset.phases
    settings = _with_flags(preset.recipe, preset.rows, phases, size.objective)
    settings = replace(settings, starts_from_frequencies=size.starts_from_frequencies)
    print(f"Recipe {_RECIPE.value} of size {_SIZE.value}: {preset.source}.")
    return settings, config


def _with_flags(
    recipe: Recipe, rows: str, phases: tuple[tuple[int, float], ...], objective: str
) -> "MaskedSettings":
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
        seconds=None if _MINUTES.value is None else 60 * _MINUTES.value,
    )


def model_maker(
    config: dict[str, Any], corpus: Corpus | None, directory: Path, dtype: str
) -> Callable[[], "ObjectiveModel"]:
    """A function that makes the model, for a given vocabulary or one built from the text."""
    from bert_zoo.pretraining.models import new_model
    from bert_zoo.pretraining.run import VOCABULARY
    from bert_zoo.text import preprocessor_from_dir

    family = registry().families[_RECIPE.value]
    preset = PRESETS[_RECIPE.value]
    path = Path(_VOCABULARY.value or directory / VOCABULARY)
    if not _VOCABULARY.value and not path.is_dir():
        from bert_zoo.pretraining.vocabularies import train_vocabulary

        if corpus is None:
            raise ValueError(
                f"Rows of --form {_FORM.value} were made with a vocabulary. Name its directory with --vocabulary."
            )
        size = {**family.defaults, **config}["vocab_size"]
        partial = path.with_name(f"{path.name}.partial")
        tokens = train_vocabulary(
            (sentence for document in corpus for sentence in document),
            preset.vocabulary,
            partial,
            vocab_size=size,
            lowercase=preset.lowercase,
            languages=_LANGUAGES.value or (),
        )
        partial.rename(path)
        print(f"Built a vocabulary of {len(tokens):,} tokens from the text: {path}.")

    def make_model():
        longest = family.config_class(**{**family.defaults, **config}).longest_input
        preprocessor = preprocessor_from_dir(path, family.name, sequence_length=longest)
        return new_model(family, config, preprocessor, dtype)

    return make_model


# --- Language models with a memory ---


def stream_to_go_on(
    corpus: Corpus | None, directory: Path
) -> tuple["StreamSettings", Callable[[], "CausalLM | BidirectionalLM"]]:
    """The settings of a checkpoint's adaptation preset with the flags, and a function that loads it."""
    import bert_zoo
    from bert_zoo.loading.directories import open_checkpoint
    from bert_zoo.models import CausalLM

    opened = open_checkpoint(_MODEL.value, with_weights=False)
    if reads_both_directions(opened.family):
        return bidirectional_stream(
            BIDIRECTIONAL_ADAPTATION,
            words_of_text(BIDIRECTIONAL_ADAPTATION, corpus, directory),
            lambda: bert_zoo.load(_MODEL.value, dtype=_dtype()),
        )
    positions = opened.config.longest_input

    def make_model():
        return bert_zoo.load(_MODEL.value, task=CausalLM.task, dtype=_dtype())

    if positions == UNLIMITED:
        return _stream_settings(STREAM_ADAPTATION), make_model
    settings = _stream_settings(replace(ROW_ADAPTATION, segment_length=positions))
    if settings.recipe.segment_length > positions:
        raise ValueError(
            f"--length is {settings.recipe.segment_length}, but the model has only {positions} positions. Choose at "
            "most that many."
        )
    return settings, make_model


def new_stream(
    corpus: Corpus | None, directory: Path
) -> tuple["StreamSettings", Callable[[], "CausalLM | BidirectionalLM"]]:
    """The settings of the recipe's preset with the flags, and a function that makes the model."""
    from bert_zoo.pretraining.models import fitted, new_language_model
    from bert_zoo.text import preprocessor_from_dir

    preset = NAMED_PRESETS.get(_RECIPE.value) or stream_preset()
    fields = registry().families[preset.family].config_class.__dataclass_fields__
    given = {flag.name: flag.value for flag in (_MEMORY, _CUTOFFS, _DIV_VAL)}
    given = {name: value for name, value in given.items() if value is not None}
    if unread := given.keys() - fields.keys():
        raise ValueError(
            f"Models of {preset.family} do not use {', '.join(f'--{name}' for name in sorted(unread))}. Leave "
            "that out."
        )
    if "cutoffs" in given:
        given["cutoffs"] = tuple(int(cutoff) for cutoff in given["cutoffs"] if cutoff)
    path = words_of_text(preset, corpus, directory)
    if preset.bidirectional:
        from bert_zoo.pretraining.causal import new_encoder

        return bidirectional_stream(preset, path, lambda: new_encoder(preset, path, _dtype()))
    preprocessor = preprocessor_from_dir(path, preset.family, sequence_length=2048)
    preset = replace(preset, config={**preset.config, **given})
    preset = fitted(preset, preprocessor.tokenizer.vocab_size)

    def make_model():
        return new_language_model(preset, preprocessor, _dtype())

    return _stream_settings(preset), make_model


def stream_preset() -> LanguageModelPreset:
    """The preset of --recipe and --size."""
    sizes = STREAM_PRESETS[_RECIPE.value]
    if _SIZE.value not in sizes:
        raise ValueError(
            f"--size is {_SIZE.value}, but {_RECIPE.value} comes in {', '.join(sizes)}. Choose one of these."
        )
    return sizes[_SIZE.value]


def bidirectional_stream(
    preset: LanguageModelPreset, vocabulary: Path, make_encoder: Callable[[], "Encoder"]
) -> tuple["StreamSettings", Callable[[], "BidirectionalLM"]]:
    """The preset's settings with the flags, and a function that adds a softmax over the text's words."""
    from bert_zoo.pretraining.causal import bidirectional_lm

    settings = _stream_settings(preset)
    return settings, lambda: bidirectional_lm(make_encoder(), settings.recipe, vocabulary)


def words_of_text(preset: LanguageModelPreset, corpus: Corpus | None, directory: Path) -> Path:
    """The directory of the given vocabulary, or of one built from the text and kept with the run."""
    from bert_zoo.pretraining.run import VOCABULARY

    path = Path(_VOCABULARY.value or directory / VOCABULARY)
    if not _VOCABULARY.value and not path.is_dir():
        tokenizer, counts = counted_tokenizer(preset, corpus)
        partial = path.with_name(f"{path.name}.partial")
        tokenizer.save(partial)
        partial.rename(path)
        known = sum(counts[token] for token in tokenizer.vocabulary) / counts.total()
        print(
            f"Built a vocabulary of {tokenizer.vocab_size:,} of the text's {len(counts):,} distinct {preset.unit}s. "
            f"It covers {known:.1%} of the text: {path}."
        )
    return path


def counted_tokenizer(
    preset: LanguageModelPreset, corpus: Corpus | None
) -> tuple["WordLevelTokenizer", Counter[str]]:
    """A tokenizer of the text's most frequent tokens, and the count of each token."""
    from bert_zoo.cli.build_vocabulary import counted_tokenizer
    from bert_zoo.pretraining.causal import BOUNDARY, UNKNOWN
    from bert_zoo.pretraining.corpus import files_of
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
    if preset.bidirectional:
        # The encoder also reads words that it does not predict.
        tokens = select_tokens(counts, special=(BOUNDARY, UNKNOWN))
    else:
        tokens = select_tokens(counts, max_size=preset.vocab_size)
    return WordLevelTokenizer(tokens, eos_at="newlines"), counts


def _stream_settings(preset: LanguageModelPreset) -> "StreamSettings":
    from bert_zoo.pretraining.causal import StreamSettings

    if unread := [name for name in _NOT_OF_STREAMS if PROGRAM.flags[name].value is not None]:
        raise ValueError(
            f"Language models are trained without {', '.join(f'--{name}' for name in unread)}. Leave that out."
        )
    given = {name: PROGRAM.flags[name].value for name in _STREAM_SETTINGS}
    changes = {name: value for name, value in given.items() if value is not None}
    if _LENGTH.value:
        changes["segment_length"] = _LENGTH.value
    if _STEPS.value is not None:
        preset = preset.with_steps(_STEPS.value)
    seconds = None if _MINUTES.value is None else 60 * _MINUTES.value
    steps = PROGRAM.flags.steps_per_execution or Recipe.steps_per_execution
    return StreamSettings(replace(preset, **changes), seconds=seconds, steps_per_execution=steps)


def _dtype() -> str:
    return PROGRAM.flags.dtype or Recipe.dtype
