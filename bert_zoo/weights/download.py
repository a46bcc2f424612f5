"""Downloads one file over https; a transfer that was cut is continued, not begun again."""

import base64
import email.message
import functools
import hashlib
import http
import http.client
import io
import json
import logging
import os
import re
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from tqdm import tqdm

from bert_zoo.config import ConfigError
from bert_zoo.error_text import shown
from bert_zoo.json_files import read_object
from bert_zoo.weights.files import MOVE_CACHE, naming_full_disk

_LOGGER = logging.getLogger(__name__)
_CHUNK_BYTES = 1 << 20
_TIMEOUT_SECONDS = 30
_CONNECT_SECONDS = 10
# A connection that brings less than this in a window is as good as dead.
_LEAST_BYTES, _WINDOW_SECONDS = 1 << 16, 60
# The end of what is there is fetched once more, for the file may have changed under its ETag.
_OVERLAP_BYTES = 1 << 16
# Waits between attempts that bring less than `_LEAST_BYTES`; one attempt more than there are waits.
_RETRY_SECONDS = (1, 2, 4)
_RETRIED_STATUS = (408, 425, 429, 500, 502, 503, 504)
_WEB_PAGE = re.compile(rb"(\xef\xbb\xbf)?\s*<(!doctype html|html|head|body|script)", re.IGNORECASE)
_ELSEWHERE = "download and unpack it elsewhere and give bert_zoo.load the path of the directory"


class DownloadError(OSError):
    """A checkpoint cannot be downloaded; the message says which, why and what to do."""


class NoNetworkError(DownloadError):
    """No connection can be made to a server; `reason` names it and says why."""

    def __init__(self, reason: str, message: str | None = None):
        super().__init__(message or reason)
        self.reason = reason


class _Interrupted(Exception):
    """The transfer ended early; another attempt may succeed."""


def require_https(url: str) -> None:
    """Raises DownloadError for an address whose bytes anyone on the way could change."""
    parts = urllib.parse.urlsplit(url)
    local = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1")
    if parts.scheme != "https" and not local:
        raise DownloadError(f"Refusing to download {url}: only https addresses are allowed.")


def require_network(url: str) -> None:
    """Tries once to connect to an address's server, or to the proxy before it.

    Raises:
        NoNetworkError: no connection can be made, so that it would be in vain to try again and again.
    """
    parts = urllib.parse.urlsplit(url)
    proxies = urllib.request.getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if proxy and not urllib.request.proxy_bypass(parts.netloc):
        parts = urllib.parse.urlsplit(proxy if "//" in proxy else f"http://{proxy}")
    port = parts.port or (80 if parts.scheme == "http" else 443)
    try:
        socket.create_connection((parts.hostname, port), _CONNECT_SECONDS).close()
    except OSError as error:
        why = error.strerror or error
        raise NoNetworkError(f"{parts.hostname} cannot be reached ({why})") from error


def download(url: str, target: Path, *, verifiable: bool) -> None:
    """Downloads to `target`, with new attempts as long as they bring the end nearer.

    What has arrived lies in `part` beside it, for this call or a later one to continue.

    Args:
        url: an https address.
        target: the file to make.
        verifiable: whether the caller can tell the whole file from a cut one: by its hash, or
            because the file says itself where it ends, as archives do. Only then is a file taken
            whose length the server does not say.

    Raises:
        DownloadError: the server refuses, sends something else, or the attempts are used up.
        NoNetworkError: there is no connection to begin with.
        DiskFullError: there is no room for the file.
    """
    advice = (
        "Check the network (and the proxy settings HTTPS_PROXY and NO_PROXY) and call again: what has "
        f"arrived is kept. Or {_ELSEWHERE}."
    )
    try:
        require_network(url)
    except NoNetworkError as error:
        message = f"Cannot download {url}: {error}. {advice}"
        raise NoNetworkError(error.reason, message) from error
    part = target.with_name("part")
    waits, furthest = iter(_RETRY_SECONDS), _size(part)
    while True:
        try:
            _transfer(url, part, verifiable)
            os.replace(part, target)
            _discard(part)
            return
        except _Interrupted as error:
            if _size(part) >= furthest + _LEAST_BYTES:
                waits, furthest = iter(_RETRY_SECONDS), _size(part)
            wait = next(waits, None)
            if wait is None:
                raise DownloadError(f"Cannot download {url}: {error}. {advice}") from error
            _LOGGER.warning("%s: %s; trying again in %s s.", url, error, wait)
            time.sleep(wait)


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


# --- one attempt ---------------------------------------------------------------------------------


class _Begun(NamedTuple):
    """What must still hold of the file on the server for `part` to be continued."""

    validator: str  # its ETag or, where that is weak, the time of its last change
    total: int | None

    @classmethod
    def read(cls, path: Path) -> "_Begun | None":
        try:
            begun = read_object(path)
            validator, total = begun.take("validator", str), begun.take("total", int)
        except (OSError, ConfigError):
            return None  # the transfer begins again
        return cls(validator, total) if validator else None

    @classmethod
    def of(cls, headers: email.message.Message, total: int | None) -> "_Begun | None":
        # A weak tag stays the same for bytes that differ (RFC 9110, section 8.8.1).
        strong = [tag for tag in headers.get_all("ETag", []) if tag.startswith('"')]
        validator = next(iter(strong), headers.get("Last-Modified"))
        return cls(validator, total) if validator else None

    def may_be(self, other: "_Begun | None") -> bool:
        """Whether nothing speaks against `other` being the same file; headers may be left out."""
        return other is None or (
            other.validator == self.validator and self.total in (None, other.total)
        )

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(self._asdict()), encoding="utf-8")


def _transfer(url: str, part: Path, verifiable: bool) -> None:
    """Brings `part` to the file's end where the server agrees to continue it, else anew."""
    state = part.with_name("part.json")
    begun = _Begun.read(state)
    start = max(0, _size(part) - _OVERLAP_BYTES) if begun else 0
    headers = {"User-Agent": "bert_zoo", "Accept-Encoding": "identity"}
    if start:
        # If-Range: the server sends the whole file where it is no longer the one that was begun.
        headers |= {"Range": f"bytes={start}-", "If-Range": begun.validator}
    try:
        request = urllib.request.Request(url, headers=headers)
        opener = urllib.request.build_opener(_HttpsRedirects, _SteadyConnections)
        with opener.open(request, timeout=_TIMEOUT_SECONDS) as response:
            _refuse_encoding(url, response.headers)
            first, total = _extent(response)
            found = _Begun.of(response.headers, total)
            if first and (first != start or not begun.may_be(found)):
                _discard(part)
                raise _Interrupted("the server sent a part of the file that was not asked for")
            if total is None and not (verifiable or response.chunked):
                raise DownloadError(
                    f"Cannot download {url}: the server does not say how long the file is, so that "
                    f"a part of it could not be told from the whole. Try again later, or {_ELSEWHERE}."
                )
            if not first:
                _discard(part)
                if found:
                    found.write(state)
            with naming_full_disk(part, url, total, MOVE_CACHE):
                _append(response, part, first, total, PurePosixPath(url).name)
            _check_whole(url, part, total, response.headers)
    except urllib.error.HTTPError as error:
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            _discard(part)
        elif error.code not in _RETRIED_STATUS:
            raise DownloadError(
                f"Cannot download {url}: the server answered {error.code} {error.reason}. Check "
                f"the address; if it has moved, {_ELSEWHERE}."
            ) from error
        raise _Interrupted(f"the server answered {error.code} {error.reason}") from error
    except (
        urllib.error.URLError,
        http.client.HTTPException,
        ConnectionError,
        TimeoutError,
    ) as error:
        raise _Interrupted(getattr(error, "reason", None) or repr(error)) from error


def _discard(part: Path) -> None:
    part.unlink(missing_ok=True)
    part.with_name("part.json").unlink(missing_ok=True)


def _refuse_encoding(url: str, headers: email.message.Message) -> None:
    encoding = headers.get("Content-Encoding", "identity").strip().lower()
    # Servers say of a .gz file, too, that it is encoded so.
    if encoding != "identity" and not url.endswith((".gz", ".tgz")):
        raise DownloadError(
            f"Cannot download {url}: the server sent it with Content-Encoding {shown(encoding)}, "
            f"although it was asked for the file as it is. Try again later, or {_ELSEWHERE}."
        )


def _extent(response: http.client.HTTPResponse) -> tuple[int, int | None]:
    """From which byte on the file comes, and its size if it is known."""
    if response.status == http.HTTPStatus.PARTIAL_CONTENT:
        extent = response.headers.get("Content-Range", "")
        match = re.fullmatch(r"bytes (\d{1,18})-\d{1,18}/(\d{1,18}|\*)", extent)
        if not match:
            raise _Interrupted(
                f"the server sent a part of the file with Content-Range {shown(extent)}"
            )
        return int(match[1]), None if match[2] == "*" else int(match[2])
    length = response.headers.get("Content-Length")
    if length is not None and not re.fullmatch(r"\d{1,18}", length):
        raise _Interrupted(f"the server sent the Content-Length {shown(length)}")
    # Beside chunks it has no meaning (RFC 9112, section 6.3).
    return 0, int(length) if length and not response.chunked else None


def _append(
    response: http.client.HTTPResponse, part: Path, first: int, total: int | None, name: str
) -> None:
    """Writes what arrives behind what is there, which must repeat where the two overlap."""
    there = _size(part)
    bar = tqdm(desc=name, initial=there, total=total, unit="B", unit_scale=True, disable=None)
    with bar, open(part, "r+b" if there else "w+b") as file:
        file.seek(first)
        while chunk := response.read1(_CHUNK_BYTES):
            known = file.read(min(len(chunk), max(0, there - file.tell())))
            if not chunk.startswith(known):
                _discard(part)
                raise _Interrupted("the file on the server is no longer the one that was begun")
            file.write(chunk[len(known) :])
            bar.update(len(chunk) - len(known))


def _check_whole(url: str, part: Path, total: int | None, headers: email.message.Message) -> None:
    """Raises unless `part` is the file: by its length, its beginning and its hash if that is sent."""
    size = _size(part)
    if total is not None and size < total:
        raise _Interrupted(f"the connection ended after {size:,} of {total:,} bytes")
    if total is not None and size > total:
        _discard(part)
        raise _Interrupted(f"{size:,} bytes arrived where the server had announced {total:,}")
    with open(part, "rb") as file:
        start = file.read(200)
        if _WEB_PAGE.match(start):
            _discard(part)
            raise DownloadError(
                f"Cannot download {url}: what arrived is a web page, {shown(start, 80)}. The network "
                "may ask for a log-in: open the address in a browser. If the file has moved, "
                f"{_ELSEWHERE}."
            )
        announced = _announced_md5(headers)
        file.seek(0)
        md5 = functools.partial(hashlib.md5, usedforsecurity=False)
        if announced and hashlib.file_digest(file, md5).digest() != announced:
            _discard(part)
            raise _Interrupted("what arrived has another MD5 than the server says the file has")


def _announced_md5(headers: email.message.Message) -> bytes | None:
    """The hash that Google's storage sends with a file: `x-goog-hash: crc32c=...,md5=...`."""
    for value in headers.get_all("x-goog-hash", []):
        if match := re.search(r"\bmd5=([A-Za-z0-9+/]{22}==)", value):
            return base64.b64decode(match[1])
    return None


# --- connections ---------------------------------------------------------------------------------


class _HttpsRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirections as urllib does, but never away from https."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        require_https(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _SteadyBytes(io.RawIOBase):
    """The bytes of a connection; TimeoutError where fewer than `_LEAST_BYTES` come in a window.

    A time limit on each read alone lets a server that sends a byte now and then hold the caller.
    """

    def __init__(self, raw: io.RawIOBase):
        super().__init__()
        self._raw = raw
        self._since, self._came = time.monotonic(), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        count = self._raw.readinto(buffer)
        self._came += count
        waited = time.monotonic() - self._since
        if waited >= _WINDOW_SECONDS:
            if count and self._came < _LEAST_BYTES:
                raise TimeoutError(f"only {self._came:,} bytes came in {waited:.0f} s")
            self._since, self._came = time.monotonic(), 0
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _SteadyResponse(http.client.HTTPResponse):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.fp = io.BufferedReader(_SteadyBytes(self.fp.detach()))


class _Http(http.client.HTTPConnection):
    response_class = _SteadyResponse


class _Https(http.client.HTTPSConnection):
    response_class = _SteadyResponse


class _SteadyConnections(urllib.request.HTTPSHandler, urllib.request.HTTPHandler):
    def http_open(self, req):
        return self.do_open(_Http, req)

    def https_open(self, req):
        return self.do_open(_Https, req)
