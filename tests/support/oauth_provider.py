"""An OAuth provider on the loopback interface: a token endpoint and the keys of its tokens, over HTTP.

Tokens are signed with RS256. A test decides what the endpoint answers, and reads what it was asked. Not implemented:
any check of who asks.
"""

from __future__ import annotations

import json
import threading
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

AUDIENCE = "kafka"
ISSUER = "https://login.test"


class SigningKey:
    """A key of RSA that signs tokens, with its public part as a JSON Web Key.

    Parameters:
        name: its id.
        more: what the JSON Web Key says besides.
        algorithm: how it signs.
    """

    def __init__(self, name: str, *, algorithm: str = "RS256", **more: Any) -> None:
        self.name = name
        self.more = more
        self.algorithm = algorithm
        self.private = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def token(self, **claims: Any) -> str:
        """Return a signed token."""
        return jwt.encode(claims, self.private, algorithm=self.algorithm, headers={"kid": self.name})

    @property
    def public(self) -> dict[str, Any]:
        """The public part."""
        numbers = self.private.public_key().public_numbers()
        key = {"kty": "RSA", "kid": self.name, "use": "sig", "n": _number(numbers.n), "e": _number(numbers.e)}
        return key | self.more


def _number(value: int) -> str:
    return urlsafe_b64encode(value.to_bytes((value.bit_length() + 7) // 8, "big")).rstrip(b"=").decode()


class OAuthProvider:
    """A provider that listens.

    Attributes:
        key: signs the tokens.
        keys: what the key endpoint returns.
        responses: status and body of the next responses of the token endpoint; afterwards it returns `token`.
        token: the token that it returns.
        forms, headers: what it was asked.
        key_requests: how often it was asked for its keys.
    """

    def __init__(self, url: str) -> None:
        self.key = SigningKey("one")
        self.keys = [self.key]
        self.responses: list[tuple[int, bytes]] = []
        self.token = ""
        self.forms: list[dict[str, list[str]]] = []
        self.headers: list[dict[str, str]] = []
        self.key_requests = 0
        self.token_url = f"{url}/token"
        self.keys_url = f"{url}/keys"

    def answer_token(self) -> tuple[int, bytes]:
        """Return status and body of the next response."""
        if self.responses:
            return self.responses.pop(0)
        return 200, json.dumps({"access_token": self.token, "token_type": "Bearer"}).encode()

    def answer_keys(self) -> tuple[int, bytes]:
        """Return status and body of the key endpoint."""
        self.key_requests += 1
        return 200, json.dumps({"keys": [key.public for key in self.keys]}).encode()


@contextmanager
def oauth_provider() -> Iterator[OAuthProvider]:
    """Run a provider."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            provider.forms.append(parse_qs(form))
            provider.headers.append(dict(self.headers))
            self._respond(*provider.answer_token())

        def do_GET(self) -> None:
            self._respond(*provider.answer_keys())

        def _respond(self, status: int, body: bytes) -> None:
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        provider = OAuthProvider(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield provider
        finally:
            server.shutdown()
            thread.join()
