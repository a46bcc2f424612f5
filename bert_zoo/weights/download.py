"""Downloads one file over https and resumes interrupted transfers."""

import base64
import email.message
import functools
import hashlib
import http
import http.client
import logging
import os
import re
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path, PurePosixPath

from tqdm import tqdm

from bert_zoo.error_text import shown
from bert_zoo.weights.files import MOVE_CACHE, naming_full_disk

_LOGGER = logging.getLogger(__name__)
_CHUNK_BYTES = 1 << 20
_TIMEOUT_SECONDS = 30
_CONNECT_SECONDS = 10
# Waiting times after attempts without progress; there is one more attempt than waits.
_RETRY_SECONDS = (1, 2, 4)
_RETRIED_STATUS = (408, 425, 429, 500, 502, 503, 504)
# A transfer ended early; another attempt may succeed.
_INTERRUPTED = (
    *(urllib.error.URLError, http.client.HTTPException),
    *(ConnectionError, TimeoutError),
)
_WEB_PAGE = re.compile(rb"(\xef\xbb\xbf)?\s*<(!doctype html|html|head|body|script)", re.IGNORECASE)
_ELSEWHERE = "download and unpack it elsewhere and pass the directory's path to bert_zoo.load"


class DownloadError(OSError):
    """A checkpoint cannot be downloaded. The message names it, the reason, and what to do."""


class NoNetworkError(DownloadError):
    """A server cannot be reached. `reason` names the server and the cause."""

    def __init__(self, reason: str, message: str | None = None):
        super().__init__(message or reason)
        self.reason = reason


def require_https(url: str) -> None:
    """Raises DownloadError for an insecure address, other than one on this machine."""
    parts = urllib.parse.urlsplit(url)
    local = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1")
    if parts.scheme != "https" and not local:
        raise DownloadError(f"Refusing to download {url}. Use an https address.")


def require_network(url: str) -> None:
    """Tries once to connect to the server of an address, or to its proxy; NoNetworkError means that further attempts
    would fail too."""
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
    """Downloads a file, retrying as long as attempts make progress.

    Received data are kept in `<target>.part`, where this call or a later one resumes. Unless the caller can verify the
    file, by its hash or because it marks its own end, as archives do, the server must send the length.

    Raises:
        DownloadError: the server refuses or sends something else, or all attempts failed.
        NoNetworkError: there is no connection.
        DiskFullError: there is no room for the file.
    """
    advice = (
        "Check the network (and the proxy settings HTTPS_PROXY and NO_PROXY) and try again; received data are kept. "
        f"Or {_ELSEWHERE}."
    )
    try:
        require_network(url)
    except NoNetworkError as error:
        message = f"Cannot download {url}: {error}. {advice}"
        raise NoNetworkError(error.reason, message) from error
    part = target.with_name(f"{target.name}.part")
    waits, furthest = iter(_RETRY_SECONDS), _size(part)
    while True:
        try:
            _transfer(url, part, verifiable)
            os.replace(part, target)
            return _discard(part)
        except _INTERRUPTED as error:
            reason = getattr(error, "reason", None) or repr(error)
            if isinstance(error, urllib.error.HTTPError):
                reason = f"the server answered {error.code} {error.reason}"
                if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                    _discard(part)
                elif error.code not in _RETRIED_STATUS:
                    raise DownloadError(
                        f"Cannot download {url}: {reason}. Check the address; if it has moved, {_ELSEWHERE}."
                    ) from error
            if _size(part) > furthest:
                waits, furthest = iter(_RETRY_SECONDS), _size(part)
            wait = next(waits, None)
            if wait is None:
                raise DownloadError(f"Cannot download {url}: {reason}. {advice}") from error
            _LOGGER.warning("%s: %s; trying again in %s s.", url, reason, wait)
            time.sleep(wait)


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _etag_file(part: Path) -> Path:
    """The file next to a part that identifies the version of the downloaded file."""
    return part.with_name(f"{part.name}.etag")


def _discard(part: Path) -> None:
    part.unlink(missing_ok=True)
    _etag_file(part).unlink(missing_ok=True)


def _transfer(url: str, part: Path, verifiable: bool) -> None:
    """Makes one attempt: completes `part` if the server can resume, else starts again."""
    etag = _etag_file(part).read_text("utf-8") if _etag_file(part).is_file() else ""
    start = _size(part) if etag else 0
    headers = {"User-Agent": "bert_zoo", "Accept-Encoding": "identity"}
    if start:
        # With If-Range the server sends the whole file if its version has changed.
        headers |= {"Range": f"bytes={start}-", "If-Range": etag}
    opener = urllib.request.build_opener(_HttpsRedirects)
    request = urllib.request.Request(url, headers=headers)
    with opener.open(request, timeout=_TIMEOUT_SECONDS) as response:
        # A weak tag stays the same for bytes that differ (RFC 9110, section 8.8.1).
        tag = response.headers.get("ETag", "")
        version = tag if tag.startswith('"') else response.headers.get("Last-Modified", "")
        if response.status == http.HTTPStatus.PARTIAL_CONTENT:
            extent = response.headers.get("Content-Range", "")
            if not extent.startswith(f"bytes {start}-") or version not in ("", etag):
                _discard(part)
                raise urllib.error.URLError(
                    "the server sent a part of the file that was not requested"
                )
        else:
            start = 0
        total = None if response.length is None else start + response.length
        if total is None and not (verifiable or response.chunked):
            raise DownloadError(
                f"Cannot download {url}: the server does not send the file's length, so an incomplete file could not "
                f"be detected. Try again later, or {_ELSEWHERE}."
            )
        if not start:
            _etag_file(part).write_text(version, "utf-8")
        bar = tqdm(
            *(None, PurePosixPath(url).name, total),
            unit="B",
            unit_scale=True,
            disable=None,
            initial=start,
        )
        room = naming_full_disk(part, url, total, MOVE_CACHE)
        with room, bar, open(part, "ab" if start else "wb") as file:
            while chunk := response.read1(_CHUNK_BYTES):
                file.write(chunk)
                bar.update(len(chunk))
        _check_whole(url, part, total, response.headers)


def _check_whole(url: str, part: Path, total: int | None, headers: email.message.Message) -> None:
    """Raises unless `part` is the complete file, by its length, its first bytes, and its hash if sent."""
    if total is not None and _size(part) < total:
        raise urllib.error.URLError(
            f"the connection ended after {_size(part):,} of {total:,} bytes"
        )
    with open(part, "rb") as file:
        start = file.read(200)
        if _WEB_PAGE.match(start):
            _discard(part)
            raise DownloadError(
                f"Cannot download {url}: received a web page instead, {shown(start, 80)}. The network may require a "
                f"login: open the address in a browser. If the file has moved, {_ELSEWHERE}."
            )
        # Google's storage sends `x-goog-hash: crc32c=...,md5=...`.
        sent = ",".join(headers.get_all("x-goog-hash", []))
        if announced := re.search(r"\bmd5=([A-Za-z0-9+/]{22}==)", sent):
            file.seek(0)
            md5 = functools.partial(hashlib.md5, usedforsecurity=False)
            if hashlib.file_digest(file, md5).digest() != base64.b64decode(announced[1]):
                _discard(part)
                raise urllib.error.URLError(
                    "the received file does not have the MD5 that the server announced"
                )


class _HttpsRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirections like urllib, but only to https."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        require_https(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)
