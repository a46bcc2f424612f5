"""Checkpoints are brought to this machine whole and verified, or not at all."""

import base64
import errno
import hashlib
import http.server
import io
import itertools
import json
import multiprocessing
import os
import re
import shutil
import socket
import stat
import tarfile
import threading
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest
from helpers import assert_refused
from huggingface_hub import errors

from bert_zoo.loading.locating import fetch_checkpoint
from bert_zoo.registry import registry
from bert_zoo.weights import cache, download, unpack
from bert_zoo.weights.download import DownloadError, NoNetworkError
from bert_zoo.weights.files import DiskFullError, WeightsError, sha256_of

VOCABULARY = b"[PAD]\n[UNK]\n"
WEIGHTS = bytes(range(256)) * 2000


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def zip_of(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def tar_of(members: dict[str, bytes], links: dict[str, str] | None = None) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for name, target in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            archive.addfile(info)
    return buffer.getvalue()


ARCHIVE = zip_of({"model/vocab.txt": VOCABULARY, "model/bert_model.ckpt": WEIGHTS})


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        site = self.server.site
        site.requests.append(dict(self.headers))
        site.paths.append(self.path)
        status = site.failures.pop(0) if site.failures else None
        if site.redirect:
            self.send_response(302)
            self.send_header("Location", site.redirect)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        if status:
            return self.send_error(status)
        content, start = site.files.get(self.path, site.content), 0
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        same = self.headers.get("If-Range") == site.etag or site.careless
        if asked and site.ranges and same:
            start = int(asked[1]) + (site.shifts.pop(0) if site.shifts else 0)
        if start and start >= len(content):
            return self.send_error(416)
        self.send_response(206 if start else 200)
        headers = {"ETag": site.etag, "Content-Length": str(len(content) - start)}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        for name, value in (headers | site.headers).items():
            if value:
                self.send_header(name, value)
        self.close_connection = True  # where no length is sent, this is the end
        self.end_headers()
        cut = site.cuts.pop(0) if site.cuts else len(content)
        self.wfile.write(content[start : start + cut])
        if start + cut < len(content):
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True

    def log_message(self, *_):
        pass


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BERT_ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(download, "_RETRY_SECONDS", (0, 0, 0))


@pytest.fixture
def site():
    """A server of one file, or of `files`; its attributes say how it misbehaves."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.site = SimpleNamespace(
        content=ARCHIVE,
        files={},  # content by path, where there are several
        etag='"1"',
        ranges=True,
        shifts=[],  # of each range that is sent from the one that was asked for
        careless=False,  # about If-Range
        headers={},  # in place of its own; None for one that is left out
        redirect=None,
        cuts=[],  # bytes after which each connection ends
        failures=[],  # statuses of the first answers; None for a good one
        requests=[],
        paths=[],  # of the requests
        url=f"http://127.0.0.1:{server.server_port}/models/bert.zip",
    )
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server.site
    server.shutdown()
    server.server_close()
    thread.join()


def begin(site, size: int = 1000) -> None:
    """Has a call fail after `size` bytes."""
    site.cuts, site.failures = [size], [None, 503, 503, 503, 503]
    words = "503 | received data are kept"
    assert_refused(lambda: cache.fetch_archive(site.url), words, DownloadError)


def home(site) -> Path:
    (directory,) = (cache.cache_directory() / "archives").iterdir()
    return directory


def assert_complete(directory: Path) -> None:
    assert (directory / "vocab.txt").read_bytes() == VOCABULARY
    assert (directory / "bert_model.ckpt").read_bytes() == WEIGHTS


# --- download ------------------------------------------------------------------------------------


def test_an_archive_is_downloaded_once(site):
    directory = cache.fetch_archive(site.url, sha256(ARCHIVE).upper())
    assert directory.name == "model"
    assert_complete(directory)
    assert cache.fetch_archive(site.url) == directory
    assert len(site.requests) == 1  # what is cached needs no network
    assert {path.name for path in home(site).iterdir()} <= {"files", "lock", "receipt.json"}


def test_addresses_that_differ_anywhere_do_not_share_a_folder(site):
    assert cache.fetch_archive(site.url) != cache.fetch_archive(f"{site.url}/other")


CHANGED = {"Last-Modified": "Sat, 01 Jan 2022 00:00:00 GMT"}


@pytest.mark.parametrize(
    ("settings", "starts"),
    [
        # Continued where it ended, and never given up while something arrives.
        ({"cuts": [100_000, 1_100, 100_000]}, [None, 100_000, 101_100, 201_100]),
        ({"cuts": [50_000] * 10}, [None, *range(50_000, 550_000, 50_000)]),
        ({"cuts": [1000], "careless": True, "headers": {"ETag": None} | CHANGED}, [None, 1000]),
        # Begun again, where the server cannot continue it or sends another part.
        ({"cuts": [100_000], "ranges": False}, [None, 100_000]),
        ({"cuts": [100_000], "etag": ""}, [None, None]),
        ({"cuts": [100_000], "etag": 'W/"1"'}, [None, None]),
        ({"cuts": [1000], "shifts": [5]}, [None, 1000, None]),
        ({"failures": [500, 503]}, [None, None, None]),
    ],
)
def test_a_download_that_was_cut_is_completed(settings, starts, site):
    vars(site).update(settings)
    assert_complete(cache.fetch_archive(site.url))
    ranges = [start and f"bytes={start}-" for start in starts]
    assert [request.get("Range") for request in site.requests] == ranges
    etag = CHANGED["Last-Modified"] if "careless" in settings else '"1"'
    assert {request.get("If-Range") for request in site.requests} <= {None, etag}


def test_a_later_call_continues_what_an_earlier_one_began(site):
    begin(site, 1000)
    assert_complete(cache.fetch_archive(site.url))
    assert site.requests[-1]["Range"] == "bytes=1000-"
    site.url += "/other"
    begin(site, len(ARCHIVE) - 1)
    (part,) = cache.cache_directory().rglob("archive.part")
    part.write_bytes(part.read_bytes() + b"12")  # longer than the file
    assert_complete(cache.fetch_archive(site.url))


@pytest.mark.parametrize("careless", [False, True])
def test_a_file_that_changed_on_the_server_is_begun_again(careless, site):
    begin(site)
    site.content, site.etag, site.careless = zip_of({"new.txt": b"new"}), '"2"', careless
    assert (cache.fetch_archive(site.url) / "new.txt").read_bytes() == b"new"


def test_without_a_server_the_error_names_the_address_and_the_way_out():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/a.zip"
    words = f"{url} | refused | path to bert_zoo.load"
    assert_refused(lambda: cache.fetch_archive(url), words, DownloadError)


def md5(content: bytes) -> str:
    return base64.b64encode(hashlib.md5(content).digest()).decode()


@pytest.mark.parametrize(
    "settings",
    [
        {"headers": {"x-goog-hash": f"crc32c=AAAAAA==,md5={md5(ARCHIVE)}"}, "cuts": [1000]},
        {
            "content": tar_of(
                {"./albert/vocab.txt": VOCABULARY, "./albert/bert_model.ckpt": WEIGHTS}
            )
        },
        {"content": zip_of({"vocab.txt": VOCABULARY, "bert_model.ckpt": WEIGHTS})},
    ],
    ids=["hash of Google's storage", "tar", "without a folder"],
)
def test_other_archives_are_taken_too(settings, site):
    vars(site).update(settings)
    assert_complete(cache.fetch_archive(site.url))


def without_config(directory):
    raise FileNotFoundError(f"{directory} has no config.json.")


def zip_with_link() -> bytes:
    info = zipfile.ZipInfo("link")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return zip_of({info: "/etc/passwd"})


# What the site does, options of the call, attempts, and words of the error, URL being the address.
REFUSED = [
    ({"failures": [404]}, {}, 1, "URL: the server answered 404"),
    ({"ranges": False, "cuts": [1000] * 20}, {}, 4, f"URL | 1,000 of {len(ARCHIVE):,} bytes"),
    ({"headers": {"x-goog-hash": f"md5={'A' * 22}=="}}, {}, 4, "URL | does not have the MD5"),
    ({"headers": {"Content-Length": None}, "cuts": [10**5]}, {}, 1, "URL cannot be unpacked"),
    ({"content": b"<html>Log in</html>"}, {}, 1, "URL | received a web page instead | login"),
    ({"content": b"\n<!DOCTYPE html>\n"}, {}, 1, "URL | received a web page instead | login"),
    ({"redirect": "http://example.org/a.zip"}, {}, 1, "http://example.org/a.zip. Use an https"),
    ({}, {"sha256": "0" * 64}, 1, f"{sha256(ARCHIVE)} | {'0' * 64} was expected"),
    ({}, {"files": {"vocab.txt": "0" * 64}}, 1, "has SHA-256"),
    ({}, {"files": {"new": None}}, 1, "should hold exactly one new"),
    ({}, {"check": without_config}, 1, "URL does not hold a complete | no config.json"),
]
DAMAGED = [
    (zip_of({"../evil": b"x"}), "outside"),
    (zip_of({"a/../../evil": b"x"}), "outside"),
    (zip_of({"/evil": b"x"}), "outside"),
    (zip_of({"C:evil": b"x"}), "outside"),
    (zip_of({"..\\evil": b"x"}), "outside"),
    (tar_of({"../evil": b"x"}), "outside"),
    (tar_of({"/evil": b"x"}), "outside"),
    (tar_of({}, {"link": "/etc"}), "link"),
    (zip_with_link(), "link"),
    (tar_of({"a": b"1", "./a": b"2"}), "exists"),
    (tar_of({"a": b"1", "a/b": b"2"}), "a"),
    (zip_of({}), "empty"),
    (b"Please log in", "neither a zip nor a tar"),
    (tar_of({"a" * 300: b"1"}), "name too long"),
    (zip_of({"a" * 300: b"1"}), "name too long"),
    (ARCHIVE[:300] + ARCHIVE[100_000:], ""),  # a zip that lost bytes: one of several
    (tar_of({"a": WEIGHTS})[:-500], "ended before"),
    (ARCHIVE.replace(WEIGHTS[:300], WEIGHTS[300:600], 1), "CRC"),
]
REFUSED += [({"content": c}, {}, 1, f"URL cannot be unpacked | {words}") for c, words in DAMAGED]


@pytest.mark.parametrize(("settings", "options", "attempts", "words"), REFUSED)
def test_what_is_not_the_whole_archive_is_refused_and_not_kept(
    settings, options, attempts, words, site, tmp_path
):
    usual = {**vars(site), "failures": [], "cuts": []}
    vars(site).update(settings)
    errors, words = (DownloadError, WeightsError), words.replace("URL", site.url)
    assert_refused(lambda: cache.fetch_archive(site.url, **options), words, errors)
    assert len(site.requests) == attempts
    left = {"lock", "archive.part", "archive.part.etag"} if "ranges" in settings else {"lock"}
    assert {path.name for path in home(site).iterdir()} <= left
    assert not list(tmp_path.rglob("evil"))
    vars(site).update(usual)
    known = {"vocab.txt": sha256(VOCABULARY), "bert_model.ckpt": None}
    assert_complete(cache.fetch_archive(site.url, sha256(ARCHIVE), known))


@pytest.mark.parametrize("url", ["http://example.org/a.zip", "ftp://example.org/a", "file:///a"])
def test_only_https_is_downloaded(url):
    for fetch in (cache.fetch_archive, lambda url: cache.fetch_files(url, ["a"], {})):
        assert_refused(lambda: fetch(url), "Use an https", DownloadError)  # noqa: B023


def test_of_several_processes_one_downloads(site):
    # Other tests of the session may have started threads, which a fork would not survive.
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        results = [pool.apply_async(cache.fetch_archive, (site.url,)) for _ in range(3)]
        (directory,) = {result.get(timeout=60) for result in results}
    assert_complete(directory)
    assert len(site.requests) == 1


def test_waiting_for_another_process_is_said(site, caplog):
    cache.fetch_archive(site.url)
    (home(site) / "receipt.json").unlink()
    locked, path = threading.Event(), home(site) / "lock"

    def hold_for_a_moment():
        with cache.FileLock(path):
            locked.set()
            time.sleep(0.2)

    thread = threading.Thread(target=hold_for_a_moment)
    thread.start()
    locked.wait()
    cache.fetch_archive(site.url)
    thread.join()
    assert f"Another process is downloading {site.url}" in caplog.text


# --- hashes --------------------------------------------------------------------------------------


def test_a_hash_that_becomes_known_later_is_held_against_the_recorded_one(site):
    cache.fetch_archive(site.url)
    assert json.loads((home(site) / "receipt.json").read_text())["sha256"] == sha256(ARCHIVE)
    cache.fetch_archive(site.url, sha256(ARCHIVE))
    for known, words in (
        ({"sha256": "0" * 64}, f"{sha256(ARCHIVE)} | {'0' * 64} | Delete"),
        ({"files": {"vocab.txt": "0" * 64}}, "vocab.txt has SHA-256"),
    ):
        assert_refused(lambda: cache.fetch_archive(site.url, **known), words)  # noqa: B023


@pytest.mark.parametrize("damage", [os.unlink, lambda path: os.truncate(path, 3)])
def test_damaged_files_are_downloaded_again_and_must_have_the_recorded_hash(damage, site):
    damage(cache.fetch_archive(site.url) / "bert_model.ckpt")
    assert_complete(cache.fetch_archive(site.url))
    damage(cache.fetch_archive(site.url) / "bert_model.ckpt")
    site.content = zip_of({"model/other": b""})
    with pytest.raises(WeightsError, match="as in the first download"):
        cache.fetch_archive(site.url)


def test_the_first_download_says_its_hash_unless_it_is_known(site, caplog):
    cache.fetch_archive(site.url)
    line = f"Its SHA-256 ({sha256(ARCHIVE)}) is recorded but not verified"
    assert line in caplog.text and str(home(site) / "receipt.json") in caplog.text
    caplog.clear()
    shutil.rmtree(home(site) / "files")
    cache.fetch_archive(site.url)
    for known in ({"sha256": sha256(ARCHIVE)}, {"files": {"vocab.txt": sha256(VOCABULARY)}}):
        shutil.rmtree(home(site))
        cache.fetch_archive(site.url, **known)
    assert "not verified" not in caplog.text


def test_a_receipt_from_another_machine_is_asked_for(site, tmp_path, monkeypatch):
    cache.fetch_archive(site.url)
    receipt = home(site) / "receipt.json"
    monkeypatch.setenv("BERT_ZOO_CACHE", str(tmp_path / "other"))
    place = tmp_path / "other" / "archives" / receipt.parent.name / receipt.name
    place.parent.mkdir(parents=True)
    shutil.copy(receipt, place)
    site.content = zip_of({"model/other": b""})
    with pytest.raises(WeightsError, match=rf"{sha256(ARCHIVE)} was expected, as in"):
        cache.fetch_archive(site.url)


@pytest.mark.parametrize(
    ("content", "is_said"),
    [(b"", True), (b"{", True), (b"[]", True), (b"\xff", True), (b"{}", False)],
)
def test_with_a_damaged_receipt_the_archive_is_downloaded_again(content, is_said, site, caplog):
    cache.fetch_archive(site.url)
    (home(site) / "receipt.json").write_bytes(content)
    assert_complete(cache.fetch_archive(site.url))
    assert ("receipt.json is damaged" in caplog.text) == is_said and len(site.requests) == 2


def test_a_file_is_hashed_again_only_when_it_may_have_changed(tmp_path, monkeypatch):
    file = tmp_path / "a"
    file.write_bytes(b"abc")
    hashed = []
    monkeypatch.setattr(cache, "sha256_of", lambda path: hashed.append(path) or sha256_of(path))
    for _ in range(2):
        cache.verify_sha256_once(file, sha256(b"abc").upper())
    assert len(hashed) == 1
    file.write_bytes(b"abd")
    os.utime(file, (0, 0))
    for _ in range(2):
        with pytest.raises(WeightsError, match=rf"{sha256(b'abd')}, but {sha256(b'abc')}"):
            cache.verify_sha256_once(file, sha256(b"abc"))
    # A cache that cannot be written does not stop a verification.
    monkeypatch.setenv("BERT_ZOO_CACHE", str(file))
    cache.verify_sha256_once(file, sha256(b"abd"))


# --- unpacking -----------------------------------------------------------------------------------


def unpacked(content: bytes, directory: Path) -> dict[str, bytes] | None:
    """The files of an archive, or None where it is refused."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    (directory / "archive").write_bytes(content)
    try:
        sizes = unpack.unpack(directory / "archive", directory / "files", "URL")
    except WeightsError as error:
        assert "URL cannot be unpacked" in str(error) and len(str(error)) < 500
        assert not (directory / "files").exists()
        return None
    assert all((directory / "files" / name).stat().st_size == sizes[name] for name in sizes)
    return {name: (directory / "files" / name).read_bytes() for name in sizes}


SMALL_MEMBERS = {"m/vocab.txt": VOCABULARY * 3, "m/ckpt": bytes(range(64)), "m/empty": b""}


@pytest.mark.parametrize("make", [tar_of, zip_of])
def test_an_archive_with_any_byte_changed_never_gives_other_content(make, tmp_path):
    content = make(SMALL_MEMBERS)
    assert unpacked(content, tmp_path / "a") == SMALL_MEMBERS
    found = [
        unpacked(content[:at] + bytes([content[at] ^ change]) + content[at + 1 :], tmp_path / "a")
        for at, change in zip(range(len(content)), itertools.cycle((1, 0xFF, 0x20)))
    ]
    # A zip's list of members can lose one; `fetch_archive` is told which files there must be.
    assert all(files is None or files.items() <= SMALL_MEMBERS.items() for files in found)
    assert found.count(None) > len(content) / 2  # the rest are times, systems and the like


def full_disk(monkeypatch, module):
    """Lets files that the module opens for writing take nothing."""

    def opened(path, mode="r", **options):
        if mode in ("wb", "xb", "w+b", "r+b"):
            path, mode, options = "/dev/full", "r+b", {"buffering": 0}
        return open(path, mode, **options)

    monkeypatch.setattr(module, "open", opened, raising=False)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("module", [download, unpack])
def test_a_full_disk_is_said_with_the_file_the_sizes_and_the_way_out(module, site, monkeypatch):
    with monkeypatch.context() as patched:
        full_disk(patched, module)
        message = r"no room for .*bytes are missing in .* free .*BERT_ZOO_CACHE"
        with pytest.raises(DiskFullError, match=message) as raised:
            cache.fetch_archive(site.url)
    assert site.url in str(raised.value) and str(home(site)) in str(raised.value)
    assert_complete(cache.fetch_archive(site.url))
    assert len(site.requests) == (1 if module is unpack else 2)  # the archive was kept


@pytest.mark.parametrize(("limit", "value"), [("_MAX_UNPACKED_BYTES", 99), ("_MAX_MEMBERS", 1)])
def test_archives_beyond_the_bounds_are_refused(limit, value, site, monkeypatch):
    monkeypatch.setattr(unpack, limit, value)
    site.content = zip_of({"a": bytes(50), "b": bytes(50)})
    with pytest.raises(WeightsError, match="unpacks to more than"):
        cache.fetch_archive(site.url)


def test_unpacking_that_was_killed_is_done_again_without_a_download(site):
    directory = cache.fetch_archive(site.url)
    (home(site) / "receipt.json").unlink()
    (directory / "vocab.txt").unlink()
    (home(site) / "archive").write_bytes(ARCHIVE)
    assert_complete(cache.fetch_archive(site.url))
    assert len(site.requests) == 1


# --- directories on the web ----------------------------------------------------------------------

FILES = {"data/corpus-info.json": b"{}", "model/checkpoint": b"a", "model/a.data": WEIGHTS}


@pytest.fixture
def directory(site):
    """The site as a web directory of FILES."""
    site.url = site.url.replace("models/bert.zip", "pretrained/tf wt103").replace(" ", "%20")
    site.files = {f"/pretrained/tf%20wt103/{name}": content for name, content in FILES.items()}
    return site


def fetch_files(site, names=tuple(FILES), hashes=None) -> Path:
    return cache.fetch_files(site.url, names, hashes or {})


def assert_has(path: Path, files: dict[str, bytes]) -> None:
    found = {file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file()}
    assert found == set(files)
    assert all((path / name).read_bytes() == content for name, content in files.items())


def web_home() -> Path:
    (found,) = (cache.cache_directory() / "directories").iterdir()
    return found


def test_files_of_a_web_directory_are_downloaded_once(directory):
    hashes = {name: sha256(content).upper() for name, content in FILES.items()}
    path = fetch_files(directory, hashes=hashes)
    assert_has(path, FILES)
    assert directory.paths == list(directory.files)
    assert not [path for path in (web_home() / "incoming").rglob("*") if path.is_file()]
    assert fetch_files(directory) == fetch_files(directory, hashes=hashes) == path
    assert directory.paths == list(directory.files)


def test_further_files_are_added_to_those_that_are_there(directory):
    fetch_files(directory, ["model/checkpoint"])
    assert_has(fetch_files(directory), FILES)
    assert len(directory.paths) == len(FILES)
    directory.files = {"/pretrained/tf%20wt103/a%20%23b": b"escaped"}
    assert (fetch_files(directory, ["a #b"]) / "a #b").read_bytes() == b"escaped"


def test_a_web_directory_is_continued_where_it_was_cut(directory):
    directory.failures = [None, None, None, 503, 503, 503, 503]
    directory.cuts = [9, 9, 1000]
    with pytest.raises(DownloadError, match=r"model/a\.data.*503"):
        fetch_files(directory)
    assert_has(fetch_files(directory), FILES)
    assert len(directory.paths) == 8 and directory.requests[-1]["Range"] == "bytes=1000-"


def test_a_file_of_another_hash_is_refused_and_the_others_are_kept(directory):
    wrong = {"model/a.data": "0" * 64}
    with pytest.raises(WeightsError, match=rf"model/a\.data.*{sha256(WEIGHTS)}.*{'0' * 64} was"):
        fetch_files(directory, hashes=wrong)
    assert_has(web_home() / "files", {k: v for k, v in FILES.items() if k != "model/a.data"})
    assert_has(fetch_files(directory), FILES)
    assert directory.paths.count("/pretrained/tf%20wt103/model/checkpoint") == 1
    with pytest.raises(WeightsError, match=rf"{sha256(WEIGHTS)}, but {'0' * 64}.*Delete"):
        fetch_files(directory, hashes=wrong)


def test_a_damaged_file_is_downloaded_again_and_must_have_the_recorded_hash(directory):
    os.truncate(fetch_files(directory) / "model/a.data", 3)
    assert_has(fetch_files(directory), FILES)
    assert len(directory.paths) == 4
    os.unlink(web_home() / "files/model/a.data")
    directory.files["/pretrained/tf%20wt103/model/a.data"] = b"other"
    with pytest.raises(WeightsError, match="as in the first download"):
        fetch_files(directory)


def test_a_file_that_was_placed_but_not_noted_is_fetched_again(directory, monkeypatch):
    def die(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(cache, "write_json", die)
        with pytest.raises(KeyboardInterrupt):
            fetch_files(directory)
    assert_has(fetch_files(directory), FILES)


NO_LENGTH = {"Content-Length": None}


@pytest.mark.parametrize(
    ("content", "headers", "words"),
    [
        (WEIGHTS, NO_LENGTH, "does not send the file's length"),
        (b"<html>Log in</html>", {}, "received a web page"),
        (b"Not found", {}, "does not hold a complete model: it has 9 bytes"),
    ],
)
def test_a_single_file_that_is_not_the_whole_one_is_not_kept(content, headers, words, directory):
    path = "/pretrained/tf%20wt103/a.data"
    directory.files, directory.headers = {path: content}, headers

    def check(folder):
        if (size := (folder / "a.data").stat().st_size) != len(WEIGHTS):
            raise WeightsError(f"it has {size} bytes.")

    def fetch():
        return cache.fetch_files(directory.url, ["a.data"], {}, check)

    assert_refused(fetch, f"{directory.url} | {words}", (DownloadError, WeightsError))
    directory.files, directory.headers = {path: WEIGHTS}, {}
    assert_has(fetch(), {"a.data": WEIGHTS})


def test_a_file_of_unknown_length_is_taken_by_its_known_hash(directory):
    directory.headers, directory.cuts = NO_LENGTH, [1000]
    hashes = {"model/a.data": sha256(WEIGHTS)}
    with pytest.raises(WeightsError, match="SHA-256"):
        fetch_files(directory, ["model/a.data"], hashes)
    assert_has(fetch_files(directory, ["model/a.data"], hashes), {"model/a.data": WEIGHTS})


# --- packages ------------------------------------------------------------------------------------


def test_an_installed_package_is_found_without_importing_it(tmp_path, monkeypatch):
    (tmp_path / "packed_model" / "model").mkdir(parents=True)
    (tmp_path / "packed_model" / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    found = cache.package_directory("packed_model", "model")
    assert found == tmp_path / "packed_model" / "model"
    assert cache.package_directory("packed_model", "nothing") is None
    assert cache.package_directory("no_such_package", "model") is None
    assert cache.package_directory("json", "model") is None


# --- hub -----------------------------------------------------------------------------------------


COMMIT = "c0ffee" * 6 + "c0ff"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Stands for the hub: `files` are its repository, laid out as in huggingface_hub's cache."""
    root = tmp_path / "hub" / "models--org--bert"
    snapshot = root / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (root / "blobs").mkdir()
    fake = SimpleNamespace(files={}, fetched=[], error=None, blobs=root / "blobs")

    def snapshot_download(repo, *, revision, allow_patterns, local_files_only=False):
        if fake.error and not local_files_only:
            raise fake.error
        if local_files_only:
            if not (snapshot / "config.json").exists():
                raise errors.LocalEntryNotFoundError("nothing is cached")
            return str(snapshot)
        for name in huggingface_hub.utils.filter_repo_objects(
            fake.files, allow_patterns=allow_patterns
        ):
            if not (snapshot / name).exists():
                content = fake.files[name]
                large = name.endswith((".safetensors", ".bin"))
                blob = root / "blobs" / (sha256(content) if large else sha256(content)[:40])
                blob.write_bytes(content)
                (snapshot / name).parent.mkdir(exist_ok=True)
                (snapshot / name).symlink_to(os.path.relpath(blob, (snapshot / name).parent))
                fake.fetched.append(name)
        return str(snapshot)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    monkeypatch.setattr(cache, "require_network", lambda url: None)
    return fake


OTHERS = ["README.md", "flax_model.msgpack", "onnx/model.onnx", "pytorch_model.generator.bin"]
SMALL = ["1_Pooling/config.json", "config.json", "vocab.txt"]
REPOSITORY = dict.fromkeys([*SMALL, *OTHERS, "tf_model.h5"], b"{}") | {
    "pytorch_model.bin": b"torch"
}
SAFE = REPOSITORY | {"model.safetensors": b"safe", "onnx/model.safetensors": b""}
SHARDS = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
SHARDED = {"config.json": b"{}", **dict.fromkeys(SHARDS.values(), b"")}
SHARDED["model.safetensors.index.json"] = json.dumps({"weight_map": SHARDS}).encode()
H5 = {"config.json": b"{}", "tf_model.h5": b"HDF", "flax_model.msgpack": b"flax"}
ADAPTER = {"adapter_config.json": b"{}", "adapter_model.safetensors": b"thin"}


@pytest.mark.parametrize(
    ("files", "taken"),
    [
        (SAFE, [*SMALL, "model.safetensors"]),
        (SHARDED, [*SHARDED]),
        (REPOSITORY, [*SMALL, "pytorch_model.bin"]),
        (H5, ["config.json", "tf_model.h5"]),
        (ADAPTER, [*ADAPTER]),
    ],
)
def test_the_best_kind_of_weights_is_taken_and_the_small_files(files, taken, hub):
    hub.files = files
    directory = cache.fetch_hub("org/bert")
    assert sorted(hub.fetched) == sorted(taken)
    assert all((directory / name).is_file() for name in taken)


def test_files_beside_are_taken_where_they_are_asked_for(hub):
    hub.files = REPOSITORY
    directory = cache.fetch_hub("org/bert", further=("pytorch_model.generator.bin",))
    assert (directory / "pytorch_model.generator.bin").read_bytes() == b"{}"


def test_the_small_files_are_taken_alone_and_weights_later(hub):
    hub.files = SAFE
    directory = cache.fetch_hub("org/bert", with_weights=False)
    assert sorted(hub.fetched) == sorted(SMALL)
    hub.error = OSError("no network")
    assert cache.fetch_hub("org/bert", with_weights=False) == directory
    assert_refused(lambda: cache.fetch_hub("org/bert"), "no complete copy", DownloadError)
    hub.error = None
    assert (cache.fetch_hub("org/bert") / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("files", "changed", "options", "words"),
    [
        (REPOSITORY, "", {"further": ("other.bin",)}, "has no other.bin"),
        ({"config.json": b"{}"}, "", {}, "hf://org/bert@main is not a complete model"),
        (SAFE, "safe", {}, f"{sha256(b'evil!')} | {sha256(b'safe')}"),
        (ADAPTER, "thin", {}, "has SHA-256"),
        (SAFE, "", {"sha256": "0" * 64}, "0" * 64),
    ],
)
def test_what_is_not_the_whole_repository_is_refused(files, changed, options, words, hub):
    """A blob must have the hash that names it, and the weights one that is known."""
    hub.files = files
    if changed:
        cache.fetch_hub("org/bert", sha256=sha256(changed.encode()))
        (hub.blobs / sha256(changed.encode())).write_bytes(b"evil!")
    errors = (DownloadError, WeightsError)
    assert_refused(lambda: cache.fetch_hub("org/bert", **options), words, errors)


def test_a_blob_may_be_a_link_into_a_store_with_other_names(hub):
    hub.files = SAFE
    cache.fetch_hub("org/bert")
    blob = hub.blobs / sha256(b"safe")
    blob.rename(hub.blobs / ("f" * 64))
    blob.symlink_to("f" * 64)
    weights = cache.fetch_hub("org/bert") / "model.safetensors"
    (hub.blobs / "ff").mkdir()
    (hub.blobs / ("f" * 64)).rename(hub.blobs / "ff" / ("f" * 64))
    weights.unlink()
    weights.symlink_to(hub.blobs / "ff" / ("f" * 64))
    cache.fetch_hub("org/bert")


def answered(error: type[Exception], status: int) -> Exception:
    request = SimpleNamespace(url="https://huggingface.co/org/bert", method="GET")
    return error("x", response=SimpleNamespace(status_code=status, headers={}, request=request))


@pytest.fixture
def no_network(monkeypatch):
    """No address is reached; `waits` are the pauses before further attempts."""

    def unreachable(address, timeout):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    waits = []
    monkeypatch.setattr(socket, "create_connection", unreachable)
    monkeypatch.setattr(time, "sleep", waits.append)
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    return SimpleNamespace(waits=waits)


def test_without_a_network_one_attempt_is_made_and_one_line_says_so(no_network, tmp_path, caplog):
    words = "hf://org/bert@v1: huggingface.co cannot be reached"
    assert_refused(lambda: cache.fetch_hub("org/bert", "v1"), words, NoNetworkError)
    _, checkpoint = registry().resolve("bert_base_uncased")
    words = """huggingface.co | known), storage.googleapis.com cannot be reached | HTTPS_PROXY
        | hf://google-bert/bert-base-uncased | weights=None"""
    words = " ".join(words.split())
    assert_refused(lambda: fetch_checkpoint(checkpoint), words, FileNotFoundError)
    assert not no_network.waits and not caplog.records


def test_the_server_is_tried_through_its_proxy(no_network, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "proxy.example:8080")
    with pytest.raises(NoNetworkError, match=r"proxy\.example cannot be reached \(Name or"):
        download.require_network("https://huggingface.co")


# Error -> what the message says of it.
FAILURES = [
    (answered(errors.GatedRepoError, 403), "grants access on request"),
    (answered(errors.RepositoryNotFoundError, 401), "no such repository"),
    (answered(errors.RevisionNotFoundError, 404), "no such branch"),
    (answered(errors.HfHubHTTPError, 500), "cannot be reached"),
    (errors.HFValidationError("x"), "not a valid repository name"),
    (errors.LocalEntryNotFoundError("x"), "HF_ENDPOINT.*the directory's path"),
    (errors.HTTPError("x"), "cannot be reached"),
    (ConnectionError("Connection reset by peer"), "cannot be reached"),
    (json.JSONDecodeError("Expecting value", "<html>", 0), "may require a login"),
    (KeyError("sha"), "does not understand"),
    (OSError(errno.ENOSPC, "No space left on device"), "no room for it .*HF_HOME"),
]


@pytest.mark.parametrize(("error", "message"), FAILURES)
def test_whatever_the_hub_does_a_whole_copy_is_used_or_the_error_says_what_to_do(
    error, message, hub, caplog
):
    hub.error = error
    with pytest.raises(
        DownloadError, match=rf"hf://org/bert@v1: .*{message}.*no complete copy of it"
    ):
        cache.fetch_hub("org/bert", "v1")
    hub.files, hub.error = REPOSITORY, None
    directory = cache.fetch_hub("org/bert")
    caplog.clear()
    hub.error = error
    assert cache.fetch_hub("org/bert") == directory
    (line,) = caplog.messages
    assert "hf://org/bert@main could not be requested" in line
    assert f"using the cached copy, commit {COMMIT}" in line


def test_a_part_of_a_model_in_the_cache_is_not_taken_for_it(hub):
    hub.files = SHARDED
    (cache.fetch_hub("org/bert") / SHARDS["b"]).unlink()
    hub.error = ConnectionError("no route")
    assert_refused(lambda: cache.fetch_hub("org/bert"), "no complete copy", DownloadError)


def test_a_commit_that_is_whole_in_the_cache_is_not_asked_for(hub):
    hub.files = REPOSITORY
    directory = cache.fetch_hub("org/bert", COMMIT)
    hub.error = RuntimeError("the hub was asked")
    assert cache.fetch_hub("org/bert", COMMIT) == directory


def test_the_commit_of_a_branch_is_said_once_and_again_when_it_has_moved(hub, monkeypatch, caplog):
    hub.files = REPOSITORY
    directory = cache.fetch_hub("org/bert")
    line = f"hf://org/bert@main is now commit {COMMIT}. Load hf://org/bert@{COMMIT} to pin"
    assert line in caplog.text
    caplog.clear()
    cache.fetch_hub("org/bert")
    assert not caplog.messages
    real, moved = huggingface_hub.snapshot_download, directory.with_name("1" * 40)
    shutil.copytree(directory, moved, symlinks=True)

    def snapshot_download(repo, *, local_files_only=False, **options):
        found = real(repo, local_files_only=local_files_only, **options)
        return found if local_files_only else str(moved)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    assert cache.fetch_hub("org/bert") == moved
    assert f"has moved from commit {COMMIT} to {'1' * 40}" in caplog.text


def test_offline_and_not_cached_says_so(hub, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.example")
    hub.error = errors.LocalEntryNotFoundError("x")
    words = "https://mirror.example | HF_HUB_OFFLINE is set"
    assert_refused(lambda: cache.fetch_hub("org/bert"), words, DownloadError)
