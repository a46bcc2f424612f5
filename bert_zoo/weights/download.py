"""Downloads one file over https; a transfer that was cut is continued, not begun again."""

import http
import http.client
import logging
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path, PurePosixPath

from tqdm import tqdm

_LOGGER = logging.getLogger(__name__)
_CHUNK_BYTES = 1 << 20
_TIMEOUT_SECONDS = 30
# Waits between attempts that bring nothing; one attempt more than there are waits.
_RETRY_SECONDS = (1, 2, 4)
_RETRIED_STATUS = (408, 425, 429, 500, 502, 503, 504)


class DownloadError(OSError):
    """A checkpoint cannot be downloaded; the message says which, why and what to do."""


class _Interrupted(Exception):
    """The transfer ended early; another attempt may succeed."""


def require_https(url: str) -> None:
    """Raises DownloadError for an address whose bytes anyone on the way could change."""
    parts = urllib.parse.urlsplit(url)
    local = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1")
    if parts.scheme != "https" and not local:
        raise DownloadError(f"Refusing to download {url}: only https addresses are allowed.")


class _HttpsRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirections as urllib does, but never away from https."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        require_https(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def download(url: str, target: Path) -> None:
    """Downloads to `target`, with new attempts as long as they bring the end nearer.

    What has arrived lies in `part` beside it, for this call or a later one to continue.
    Raises DownloadError where the server refuses or the attempts are used up.
    """
    part = target.with_name("part")
    waits, furthest = iter(_RETRY_SECONDS), 0
    while True:
        try:
            _transfer(url, part)
            os.replace(part, target)
            return
        except _Interrupted as error:
            reached = part.stat().st_size if part.is_file() else 0
            if reached > furthest:
                waits, furthest = iter(_RETRY_SECONDS), reached
            wait = next(waits, None)
            if wait is None:
                raise DownloadError(
                    f"Cannot download {url}: {error}. Check the network (and the proxy settings "
                    "HTTPS_PROXY and NO_PROXY) and call again: what has arrived is kept. Or "
                    "download and unpack it elsewhere and give bert_zoo.load the path of the "
                    "directory."
                ) from error
            _LOGGER.warning("%s: %s; trying again in %s s.", url, error, wait)
            time.sleep(wait)


def _transfer(url: str, part: Path) -> None:
    """One attempt: appends to `part` where the server agrees, else begins again."""
    validator = part.with_name("part.validator")
    have = part.stat().st_size if part.is_file() and validator.is_file() else 0
    headers = {"User-Agent": "bert_zoo", "Accept-Encoding": "identity"}
    if have:
        # If-Range: the server sends the whole file where it is no longer the one that was begun.
        headers |= {"Range": f"bytes={have}-", "If-Range": validator.read_text()}
    try:
        request = urllib.request.Request(url, headers=headers)
        opener = urllib.request.build_opener(_HttpsRedirects)
        with opener.open(request, timeout=_TIMEOUT_SECONDS) as response:
            start, total = _extent(response)
            if start and (start != have or response.headers.get("ETag") != validator.read_text()):
                part.unlink()
                raise _Interrupted("the server sent a part of the file that was not asked for")
            if start == 0:
                part.unlink(missing_ok=True)
                _keep_validator(response, validator)
            _append(response, part, start, total, PurePosixPath(url).name)
    except urllib.error.HTTPError as error:
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.unlink(missing_ok=True)
        elif error.code not in _RETRIED_STATUS:
            raise DownloadError(
                f"Cannot download {url}: the server answered {error.code} {error.reason}. Check "
                "the address; if it has moved, download and unpack it elsewhere and give "
                "bert_zoo.load the path of the directory."
            ) from error
        raise _Interrupted(f"the server answered {error.code} {error.reason}") from error
    except (
        urllib.error.URLError,
        http.client.HTTPException,
        ConnectionError,
        TimeoutError,
    ) as error:
        raise _Interrupted(getattr(error, "reason", None) or repr(error)) from error


def _extent(response: http.client.HTTPResponse) -> tuple[int, int | None]:
    """The first byte that the response brings, and the size of the whole file if it is known."""
    if response.status == http.HTTPStatus.PARTIAL_CONTENT:
        extent = response.headers.get("Content-Range", "")
        match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", extent)
        if not match:
            raise _Interrupted(f"the server sent a part of the file with Content-Range {extent!r}")
        return int(match[1]), None if match[2] == "*" else int(match[2])
    length = response.headers.get("Content-Length")
    return 0, int(length) if length else None


def _keep_validator(response: http.client.HTTPResponse, path: Path) -> None:
    """Keeps what tells whether the file on the server is still the same, else nothing."""
    etag = response.headers.get("ETag", "")
    # A weak tag stays the same for bytes that differ (RFC 9110, section 8.8.1).
    if etag.startswith('"'):
        path.write_text(etag)
    else:
        path.unlink(missing_ok=True)


def _append(
    response: http.client.HTTPResponse, part: Path, start: int, total: int | None, name: str
) -> None:
    bar = tqdm(desc=name, initial=start, total=total, unit="B", unit_scale=True, disable=None)
    with bar, open(part, "ab") as file:
        while chunk := response.read(_CHUNK_BYTES):
            file.write(chunk)
            bar.update(len(chunk))
    size = part.stat().st_size
    if total is not None and size < total:
        raise _Interrupted(f"the connection ended after {size:,} of {total:,} bytes")
    if total is not None and size > total:
        part.unlink()
        raise _Interrupted(f"{size:,} bytes arrived where the server had announced {total:,}")
