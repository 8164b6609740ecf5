"""A schema registry for tests: what the client of confluent-kafka asks of one, over HTTP on the loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit


class SchemaRegistry:
    """Subjects, with their versions, in memory.

    Attributes:
        asked: the path of each request.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._schemas: list[dict[str, Any]] = []
        self._subjects: dict[str, list[int]] = {}
        self._lock = threading.Lock()
        self.url = ""

    @contextmanager
    def serving(self) -> Iterator[SchemaRegistry]:
        """Serve until the end of the block."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        server.daemon_threads = False
        self.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def answer(self, method: str, path: list[str], body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with self._lock:
            match method, path:
                case "POST", ["subjects", subject, "versions"]:
                    return 200, {**self._add(subject, body), "subject": subject, **body}
                case "POST", ["subjects", subject]:
                    ids = [one for one in self._subjects.get(subject, []) if self._schemas[one - 1] == body]
                    return (200, self._version(subject, ids[0])) if ids else (404, {"error_code": 40403})
                case "GET", ["subjects", subject, "versions", version] if subject in self._subjects:
                    ids = self._subjects[subject]
                    number = len(ids) if version == "latest" else int(version)
                    return (200, self._version(subject, ids[number - 1])) if number <= len(ids) else self._missing()
                case "GET", ["schemas", "ids", number] if 0 < int(number) <= len(self._schemas):
                    return 200, self._schemas[int(number) - 1]
        return self._missing()

    def forget(self, subject: str) -> None:
        """Delete a subject permanently; ids of its schemas stay."""
        with self._lock:
            del self._subjects[subject]

    def _missing(self) -> tuple[int, dict[str, Any]]:
        return 404, {"error_code": 40401, "message": "not found"}

    def _add(self, subject: str, schema: dict[str, Any]) -> dict[str, Any]:
        if schema not in self._schemas:
            self._schemas.append(schema)
        number = self._schemas.index(schema) + 1
        ids = self._subjects.setdefault(subject, [])
        if number not in ids:
            ids.append(number)
        return self._version(subject, number)

    def _version(self, subject: str, number: int) -> dict[str, Any]:
        version = self._subjects[subject].index(number) + 1
        return {"subject": subject, "id": number, "version": version, **self._schemas[number - 1]}

    def _handler(registry) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            def _respond(self) -> None:
                path = urlsplit(self.path).path
                registry.asked.append(path)
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length) or b"{}")
                status, found = registry.answer(self.command, [unquote(part) for part in path.split("/")[1:]], body)
                told = json.dumps(found).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(told)))
                self.end_headers()
                self.wfile.write(told)

            do_GET = do_POST = _respond

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler
