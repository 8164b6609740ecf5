"""HTTP requests to the endpoints of an OAuth provider: a token for a client, keys for a broker.

A request has one deadline, however slowly the response arrives, and a response is at most 1 MiB long. Redirects are not
followed (they would carry the client's secret elsewhere), and plain HTTP is allowed on the loopback interface only.
Proxies for HTTPS are those of the environment. Limitations: the lookup of a host name is as slow as the system's
resolver. Elsewhere: what to send (`settings`).
"""

from __future__ import annotations

import io
import json
import re
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from kclient.errors import ConfigError, KafkaError, OAuthTokenError, SaslAuthenticationError
from kclient.security.oauth.tokens import OAuthToken
from kclient.security.oauth.urls import shown_url
from kclient.security.secret import MASK

_LIMIT = 1 << 20
"""Bytes of a response."""
_SHOWN = 500
"""Characters of an error that are shown."""
_SIGNED = re.compile(r"[\w-]{8,}\.[\w-]{8,}\.[\w-]*", re.ASCII)
"""What looks like a JSON Web Token."""
_REFUSALS = frozenset({400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 501, 505})
"""The status codes that another attempt does not change (Kafka's list)."""


class Endpoint(NamedTuple):
    """An address, and how to connect to it.

    Attributes:
        url: https, or http on the loopback interface.
        timeout: seconds of a request, from connecting to the last byte of the response.
        context: the certificates to trust; None for those of the system.
        clock: seconds.
    """

    url: str
    timeout: float = 10.0
    context: ssl.SSLContext | None = None
    clock: Callable[[], float] = time.monotonic

    def request(self, form: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None) -> bytes:
        """Return the body of the response. Blocks.

        Parameters:
            form: the fields to post; None to get.

        Raises:
            SaslAuthenticationError: the endpoint refuses the request.
            OAuthTokenError: the endpoint did not respond, or with an error that may pass.
        """
        data = None if form is None else urlencode(form).encode()
        request = urllib.request.Request(self.url, data, {"Accept": "application/json", **(headers or {})})
        deadline = _Deadline(self.clock() + self.timeout, self.clock)
        context = self.context or ssl.create_default_context()
        handlers = [_NoRedirects(), _PlainRequests(deadline), _TlsRequests(deadline, context)]
        if urlsplit(self.url).scheme == "http":
            # Plain HTTP stays on this machine.
            handlers.append(urllib.request.ProxyHandler({}))
        opener = urllib.request.build_opener(*handlers)
        try:
            with opener.open(request, timeout=self.timeout) as response:
                body: bytes = response.read(_LIMIT + 1)
        except urllib.error.HTTPError as error:
            raise self._failure(error) from None
        except (OSError, ValueError, HTTPException) as error:
            cause = error.reason if isinstance(error, urllib.error.URLError) else error
            if isinstance(cause, TimeoutError):
                cause = f"the response was not complete after {self.timeout:g} s"
            raise OAuthTokenError(f"{shown_url(self.url)} could not be reached: {cause}") from None
        if len(body) > _LIMIT:
            raise OAuthTokenError(f"{shown_url(self.url)} answered with more than {_LIMIT} bytes")
        return body

    def _failure(self, error: urllib.error.HTTPError) -> KafkaError:
        """Return the error of a response with a status that is one."""
        with error:
            try:
                reason = _described(error.read(_LIMIT))
            except (OSError, HTTPException):
                reason = ""
        text = f"{shown_url(self.url)} answered with status {error.code}{reason}"
        return (SaslAuthenticationError if error.code in _REFUSALS else OAuthTokenError)(text)


class _Deadline(NamedTuple):
    """The end of a request, in seconds of a clock."""

    at: float
    clock: Callable[[], float]

    def apply(self, sock: socket.socket) -> None:
        """Let the next operation of a socket wait until the deadline only.

        Raises:
            TimeoutError: it has passed.
        """
        left = self.at - self.clock()
        if left <= 0:
            raise TimeoutError("timed out")
        sock.settimeout(left)


class TimedReader(io.RawIOBase):
    """The bytes of a socket until the deadline: each read may wait for what is left, not for a timeout of its own.

    Parameters:
        raw: the unbuffered file of the socket.
        sock: the socket.
        deadline: when reading ends.
    """

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, deadline: _Deadline) -> None:
        self._raw = raw
        self._sock = sock
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        self._deadline.apply(self._sock)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(HTTPResponse):
    def __init__(self, deadline: _Deadline, sock: socket.socket, *arguments: Any, **more: Any) -> None:
        super().__init__(sock, *arguments, **more)
        self.fp = io.BufferedReader(TimedReader(self.fp.detach(), sock, deadline))


class _PlainRequests(urllib.request.HTTPHandler):
    def __init__(self, deadline: _Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(partial(_connection, HTTPConnection, self._deadline), req)


class _TlsRequests(urllib.request.HTTPSHandler):
    def __init__(self, deadline: _Deadline, context: ssl.SSLContext) -> None:
        super().__init__(context=context)
        self._deadline = deadline
        self._trust = context

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(partial(_connection, HTTPSConnection, self._deadline, context=self._trust), req)


def _connection(
    kind: type[HTTPConnection], deadline: _Deadline, host: str, *, timeout: float, **more: Any
) -> HTTPConnection:
    """Return a connection whose responses end at the deadline."""
    connection = kind(host, timeout=timeout, **more)
    connection.response_class = partial(_Response, deadline)  # type: ignore[assignment]
    return connection


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments: Any) -> None:
        return None


def token_of(body: bytes, url: str, extensions: Mapping[str, str]) -> OAuthToken:
    """Return the token in the response of a token endpoint.

    Parameters:
        url: the address of the endpoint, for errors.
        extensions: SASL extensions to send with it.

    Raises:
        OAuthTokenError: the response has no token.
    """
    url = shown_url(url)
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise OAuthTokenError(f"{url} answered with something other than JSON") from None
    values = [found.get(name) for name in ("access_token", "id_token")] if isinstance(found, dict) else []
    for value in values:
        if isinstance(value, str) and value.strip():
            try:
                return OAuthToken(value.strip(), extensions=extensions)
            except ConfigError as error:
                raise OAuthTokenError(f"{url} answered with a token that cannot be sent: {error.message}") from None
    names = sorted(found) if isinstance(found, dict) else type(found).__name__
    raise OAuthTokenError(f"{url} answered without access_token or id_token, but with {names}")


def _described(body: bytes) -> str:
    """Return the error of an OAuth response (RFC 6749, section 5.2), or the text of another one."""
    try:
        found = json.loads(body)
        names = ("error", "error_description", "errorCode", "errorSummary")
        told = {name: found[name] for name in names if isinstance(found.get(name), str)}
    except (ValueError, AttributeError, RecursionError):
        told = {}
    text = ", ".join(told.values()) or body.decode(errors="replace").strip()
    # Some endpoints repeat what they were asked, which may contain an assertion.
    shown = _SIGNED.sub(MASK, text)[:_SHOWN]
    return f": {shown}" if shown.isprintable() and shown else ""
