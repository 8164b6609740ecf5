"""A small HTTP server for the broker's metrics and for the control of tests.

    server = HttpServer("127.0.0.1", 0, {("GET", "/metrics"): page})
    server.start()                            # it serves on server.port
    server.close()

It runs in its own threads, one that accepts and one for each request, so that a slow reader delays nothing else; a
handler that needs the broker calls it on the event loop (`asyncio.run_coroutine_threadsafe`). A connection carries one
request.

Not implemented: TLS, authentication, chunked bodies and streamed responses, since the server is meant for loopback.
"""

from __future__ import annotations

import contextlib
import json
import logging
import selectors
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from kclient.errors import IllegalStateError

logger = logging.getLogger(__name__)

BODY_LIMIT = 1 << 20
"""The maximum size of a request's body, in bytes."""
CONNECTION_LIMIT = 64
"""The maximum number of simultaneous connections; each has a thread."""
REQUEST_SECONDS = 10.0
"""How long a client may take to send the next piece of its request, and to read the response."""
CLOSE_SECONDS = 2.0
"""How long `close` waits for requests that are being handled."""

_DISCARD_LIMIT = 16 << 20
_QUERY_FIELDS = 100


class HttpError(Exception):
    """Raised by a handler to respond with an error.

    Parameters:
        message: the error; the response is `{"error": message}`.
        status: the HTTP status.
    """

    def __init__(self, message: str, status: int = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request.

    Attributes:
        method: in capitals.
        path: without the query, as it was sent.
        query: the query's fields; the last value of a repeated field.
        body: the body.
    """

    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response."""

    status: int
    content_type: str
    body: bytes


HttpHandler = Callable[[HttpRequest], HttpResponse]
Routes = Mapping[tuple[str, str], HttpHandler]


def json_response(value: object, status: int = HTTPStatus.OK) -> HttpResponse:
    """Return a response in JSON."""
    return HttpResponse(status, "application/json", json.dumps(value).encode() + b"\n")


def _error(message: str, status: int) -> HttpResponse:
    return json_response({"error": message}, status)


class HttpServer:
    """An HTTP server in its own threads.

    Parameters:
        host: the address to listen on.
        port: 0 picks a free one.
        routes: the handler of each method and path. It is called in the thread of the request; an exception other than
            `HttpError` is logged and answered with status 500.

    Attributes:
        port: the port it listens on, once started.
    """

    def __init__(self, host: str, port: int, routes: Routes) -> None:
        self.port = port
        self._host = host
        self._routes = routes
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None
        self._wake: socket.socket | None = None

    @property
    def url(self) -> str:
        """The server's address without a path; it includes the port once the server is started."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}"

    def start(self) -> None:
        """Listen and serve.

        Raises:
            OSError: the port is in use, or the address is not local.
            IllegalStateError: the server is already running.
        """
        if self._server is not None:
            raise IllegalStateError("the HTTP server is already running")
        server = _Server(self._host, self.port, self._routes)
        self._server = server
        self.port = server.server_port
        self._wake, woken = socket.socketpair()
        self._thread = threading.Thread(
            target=_accept, args=(server, woken), name=f"refbroker-http-{self.port}", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop accepting, let requests that are being handled finish, and abort those that take too long.

        A handler that waits for the event loop needs the loop to run meanwhile; in that case call this in another
        thread.
        """
        server, thread, wake = self._server, self._thread, self._wake
        if server is None or thread is None or wake is None:
            return
        self._server = self._thread = self._wake = None
        wake.close()
        thread.join()
        server.server_close()
        server.end_connections()


def _accept(server: _Server, woken: socket.socket) -> None:
    """Accept connections until the other end of `woken` is closed; `serve_forever` would poll for that twice a
    second.
    """
    with woken, selectors.DefaultSelector() as selector:
        selector.register(server, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while not any(key.fileobj is woken for key, _ in selector.select()):
            server.handle_request()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = CONNECTION_LIMIT
    timeout = 0
    """A client that disconnects before it is accepted must not block `handle_request`."""

    def __init__(self, host: str, port: int, routes: Routes) -> None:
        self.routes = routes
        self._changed = threading.Condition()
        self._open: set[Any] = set()
        try:
            infos = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            self.address_family, _, _, _, address = infos[0]
            super().__init__((str(address[0]), int(address[1])), _Handler)
        except OSError as error:
            raise OSError(error.errno, f"could not listen on {host}:{port}: {error.strerror}") from error

    def server_bind(self) -> None:
        # HTTPServer's own method resolves the host's name, which can take seconds where there is no name server.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.socket.getsockname()[:2]

    def verify_request(self, request: Any, client_address: Any) -> bool:
        with self._changed:
            return len(self._open) < CONNECTION_LIMIT

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changed:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self._changed:
            self._open.discard(request)
            self._changed.notify_all()

    def end_connections(self) -> None:
        """Close connections that wait for a request, and the others when they have responded or after a timeout."""
        for how, seconds in ((socket.SHUT_RD, CLOSE_SECONDS), (socket.SHUT_RDWR, CLOSE_SECONDS)):
            with self._changed:
                for request in self._open:
                    with contextlib.suppress(OSError):
                        request.shutdown(how)
                if self._changed.wait_for(lambda: not self._open, seconds):
                    return
        logger.warning("%d requests over HTTP did not end", len(self._open))

    def handle_error(self, request: Any, client_address: Any) -> None:
        # Usually a client that disconnected; errors of handlers are caught where they are called.
        logger.debug("the connection of %s ended with an error", client_address, exc_info=sys.exception())


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = REQUEST_SECONDS

    def do_GET(self) -> None:
        """Route the request, whatever its method: `http.server` looks for a method of this name."""
        try:
            handler, request = self._route(self._body())
            response = self._handle(handler, request)
        except HttpError as error:
            response = _error(str(error), error.status)
        self._respond(response)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def _handle(self, handler: HttpHandler, request: HttpRequest) -> HttpResponse:
        try:
            return handler(request)
        except HttpError:
            raise
        except Exception as error:
            logger.exception("%s %s could not be handled", self.command, self.path)
            raise HttpError(f"{type(error).__name__}: {error}", HTTPStatus.INTERNAL_SERVER_ERROR) from error

    def _route(self, body: bytes) -> tuple[HttpHandler, HttpRequest]:
        try:
            url = urlsplit(self.path)
            query = dict(parse_qsl(url.query, keep_blank_values=True, max_num_fields=_QUERY_FIELDS))
        except ValueError as error:
            raise HttpError(f"the address {self.path!r} cannot be read: {error}") from error
        handler = self.server.routes.get((self.command, url.path))
        if handler is not None:
            return handler, HttpRequest(self.command, url.path, query, body)
        methods = sorted(method for method, path in self.server.routes if path == url.path)
        if methods:
            raise HttpError(f"{url.path} takes {', '.join(methods)}, not {self.command}", HTTPStatus.METHOD_NOT_ALLOWED)
        paths = ", ".join(sorted({path for _, path in self.server.routes}))
        raise HttpError(f"there is no {url.path} here; there is {paths}", HTTPStatus.NOT_FOUND)

    def _body(self) -> bytes:
        if "transfer-encoding" in self.headers:
            raise HttpError("a body needs a Content-Length", HTTPStatus.LENGTH_REQUIRED)
        text = self.headers.get("content-length", "0").strip()
        if not (text.isascii() and text.isdigit()) or len(text) > 18:
            raise HttpError(f"the Content-Length {text[:40]!r} is not a number of bytes")
        size = int(text)
        if size > BODY_LIMIT:
            self._discard(min(size, _DISCARD_LIMIT))
            raise HttpError(
                f"the body has {size} bytes, and at most {BODY_LIMIT} are allowed", HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            )
        body = self.rfile.read(size)
        if len(body) < size:
            raise HttpError(f"the body ended after {len(body)} of {size} bytes")
        return body

    def _discard(self, size: int) -> None:
        # Closing with unread bytes would reset the connection and discard the response.
        while size > 0 and (data := self.rfile.read(min(size, 65536))):
            size -= len(data)

    def _respond(self, response: HttpResponse) -> None:
        self.send_response(response.status)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(response.body)))
        self.end_headers()
        self.wfile.write(response.body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Respond to what `http.server` itself refuses: not HTTP, too long, an unknown method."""
        self._respond(_error(message or HTTPStatus(code).phrase, code))

    def version_string(self) -> str:
        return "refbroker"

    def log_message(self, format: str, *args: object) -> None:
        logger.debug(format, *args)
