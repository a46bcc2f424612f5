"""The server of `bert_zoo demo`: who may ask what, and how much at once."""

import hmac
import ipaddress
import json
import re
import secrets
import socket
import sys
import traceback
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from bert_zoo.charts.page import Page
from bert_zoo.cli.program import message_of

if TYPE_CHECKING:
    from bert_zoo.cli.demo import Demo

MAX_BYTES = 4 << 20  # of a request
WHOLE_TABLES = "`bert_zoo predict --file` reads tables of any size."
# The page's own policy says what it may load. These keep it and its token out of caches and other sites.
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Refused(Exception):
    """A request that is answered with an HTTP status and a message."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


class Server(ThreadingHTTPServer):
    """Listens at once, and answers as soon as it has a `demo`; ValueError if it cannot listen at an address."""

    demo: "Demo"
    daemon_threads = True
    request_queue_size = 64  # clients that come at once

    def __init__(self, host: str, port: int):
        self.host, self.token = host, secrets.token_urlsafe(16)
        try:
            super().__init__((host, port), Handler)
        except OSError as error:
            raise ValueError(
                f"Cannot listen on {host}, port {port}: {error.strerror}. Choose another with --port, or --port 0 "
                "for any free one; --host takes an address of this machine."
            ) from error
        self.address = f"http://{host}:{self.server_port}/{self.token}/"

    def is_called(self, host: str) -> bool:
        """Whether a request's Host means this server. Another site's name may lead here too (DNS rebinding)."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
            own = ("localhost", self.host, socket.gethostname())
            return name in own or bool(ipaddress.ip_address(name))
        except ValueError:
            return False

    def handle_error(self, request: Any, client_address: Any) -> None:
        # Clients may leave before they have their answer.
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Answers one request: the page, the answer to a form, or the predictions for a table."""

    server: Server
    timeout = 30  # seconds of a client that sends nothing
    server_version, sys_version = "bert_zoo", ""

    def do_GET(self) -> None:
        self._serve({"": lambda **query: self.server.demo.page})

    def do_POST(self) -> None:
        self._serve({"answer": self._answer, "table": self._table})

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: addresses have the token."""

    def _serve(self, routes: dict[str, Callable[..., Any]]) -> None:
        url = urlsplit(self.path)
        token, _, place = url.path.removeprefix("/").partition("/")
        try:
            if not self.server.is_called(self.headers.get("Host", "")):
                raise Refused(403, "The request has another server's name as its Host.")
            if not hmac.compare_digest(token.encode(), self.server.token.encode()):
                raise Refused(403, "Open the address that `bert_zoo demo` printed, with its token.")
            if place not in routes:
                raise Refused(404, "There is no such page.")
            self._send(200, routes[place](**dict(parse_qsl(url.query))))
        except OSError:
            raise
        except Refused as error:
            self._send(error.status, {"error": str(error)})
            # A client that still sends would not read this if the connection were closed now.
            self.connection.shutdown(socket.SHUT_WR)
            while self.rfile.read1(1 << 16):
                pass
        except Exception as error:
            status, message = 400, message_of(error)
            if message is None:
                traceback.print_exc()
                status, message = 500, "The model failed. The terminal of `bert_zoo demo` says why."
            self._send(status, {"error": message})

    def _answer(self, **query: str) -> dict[str, Any]:
        try:
            values = json.loads(self._body())
        except (ValueError, RecursionError):
            raise Refused(400, "The request is not JSON.") from None
        return self.server.demo.answer(values)

    def _table(self, **query: str) -> dict[str, Any]:
        known = ("name", "text", "text_pair", "encoding")
        return self.server.demo.table(self._body(), **{n: query[n] for n in known if n in query})

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch("[0-9]{1,15}", length):
            raise Refused(411, "The request has no Content-Length.")
        if int(length) > MAX_BYTES:
            size = f"The request has {int(length):,} bytes; the limit is {MAX_BYTES:,}."
            raise Refused(413, f"{size} Shorten it. {WHOLE_TABLES}")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise ConnectionAbortedError
        return body

    def _send(self, status: int, content: Page | dict[str, Any]) -> None:
        is_page = isinstance(content, Page)
        sent = (content if is_page else json.dumps(content)).encode()
        self.send_response(status)
        kind = f"{'text/html' if is_page else 'application/json'}; charset=utf-8"
        about = {"Content-Type": kind, "Content-Length": str(len(sent))}
        for header in (HEADERS | about).items():
            self.send_header(*header)
        self.end_headers()
        self.wfile.write(sent)
