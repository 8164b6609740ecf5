"""The small HTTP server: routes, limits, bad input, and a close that waits for nobody for long."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import socket
import threading
from collections.abc import Iterator

import pytest

from kclient.errors import IllegalStateError
from refbroker.server import http as refbroker_http
from refbroker.server.http import BODY_LIMIT, HttpError, HttpRequest, HttpResponse, HttpServer, json_response
from tests.support.patience import ANSWER
from tests.support.waiting import wait_until

LOOPBACK = "127.0.0.1"


def echo(request: HttpRequest) -> HttpResponse:
    return json_response({"method": request.method, "query": request.query, "body": request.body.decode()})


def refuse(request: HttpRequest) -> HttpResponse:
    raise HttpError("count must be a number")


def fail(request: HttpRequest) -> HttpResponse:
    raise TimeoutError("the loop did not answer")


ROUTES = {("GET", "/echo"): echo, ("POST", "/echo"): echo, ("GET", "/refuse"): refuse, ("GET", "/fail"): fail}


@pytest.fixture
def server() -> Iterator[HttpServer]:
    server = HttpServer(LOOPBACK, 0, ROUTES)
    server.start()
    yield server
    server.close()


def ask(server: HttpServer, method: str, path: str, body: bytes | None = None) -> tuple[int, dict[str, object]]:
    with contextlib.closing(http.client.HTTPConnection(LOOPBACK, server.port, timeout=ANSWER)) as connection:
        connection.request(method, path, body)
        response = connection.getresponse()
        assert response.getheader("Content-Type") == "application/json"
        return response.status, json.loads(response.read())


def send_raw(server: HttpServer, data: bytes) -> bytes:
    with socket.create_connection((LOOPBACK, server.port), timeout=ANSWER) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        received = b""
        while piece := client.recv(65536):
            received += piece
        return received


def test_a_handler_gets_method_query_and_body(server: HttpServer) -> None:
    status, answer = ask(server, "POST", "/echo?api=Produce&topic=a%20b&flag=", b"hello")

    assert status == 200
    assert answer == {
        "method": "POST",
        "query": {"api": "Produce", "topic": "a b", "flag": ""},
        "body": "hello",
    }


def test_a_request_without_a_body_has_an_empty_one(server: HttpServer) -> None:
    assert ask(server, "GET", "/echo")[1] == {"method": "GET", "query": {}, "body": ""}


def test_an_unknown_path_names_those_that_exist(server: HttpServer) -> None:
    status, answer = ask(server, "GET", "/metric")

    assert status == 404
    assert answer == {"error": "there is no /metric here; there is /echo, /fail, /refuse"}


def test_a_known_path_with_another_method_names_its_methods(server: HttpServer) -> None:
    assert ask(server, "DELETE", "/echo") == (405, {"error": "/echo takes GET, POST, not DELETE"})


def test_what_a_handler_refuses_is_an_error_in_json(server: HttpServer) -> None:
    assert ask(server, "GET", "/refuse") == (400, {"error": "count must be a number"})


def test_a_broken_handler_answers_500_and_is_logged(server: HttpServer, caplog: pytest.LogCaptureFixture) -> None:
    assert ask(server, "GET", "/fail") == (500, {"error": "TimeoutError: the loop did not answer"})
    assert "GET /fail could not be handled" in caplog.text


def test_a_body_at_the_limit_is_taken_and_one_byte_more_is_not(server: HttpServer) -> None:
    assert ask(server, "POST", "/echo", b"x" * BODY_LIMIT)[0] == 200
    status, answer = ask(server, "POST", "/echo", b"x" * (BODY_LIMIT + 1))
    assert status == 413
    assert answer == {"error": f"the body has {BODY_LIMIT + 1} bytes, and at most {BODY_LIMIT} are allowed"}


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"POST /echo HTTP/1.1\r\nContent-Length: many\r\n\r\n", b"400"),
        (b"POST /echo HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"400"),
        (b"POST /echo HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", b"400"),
        (b"POST /echo HTTP/1.1\r\nContent-Length: 9\r\n\r\nshort", b"400"),
        (b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"411"),
        (b"GET http://[::1 HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /echo?" + b"&".join([b"a=1"] * 101) + b" HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /" + b"x" * 70000 + b" HTTP/1.1\r\n\r\n", b"414"),
        (b"GET /echo HTTP/1.1\r\n" + b"A: b\r\n" * 101 + b"\r\n", b"431"),
        (b"GET /echo HTTP/9.9\r\n\r\n", b"505"),
        (b"BREW /echo HTTP/1.1\r\n\r\n", b"501"),
        (b"\x00\x00\x00\x10 not HTTP at all\r\n\r\n", b"400"),
    ],
    ids=[
        "length that is not a number",
        "negative length",
        "length of 5000 digits",
        "body that ends early",
        "chunked body",
        "address that cannot be parsed",
        "too many query fields",
        "line that is too long",
        "too many headers",
        "unknown version",
        "unknown method",
        "not HTTP",
    ],
)
def test_bad_input_is_answered_with_an_error_in_json(server: HttpServer, head: bytes, status: bytes) -> None:
    answer = send_raw(server, head)

    # What cannot be read as a request line counts as HTTP 0.9, whose answers have no head.
    first, _, body = answer.rpartition(b"\r\n\r\n")
    assert json.loads(body).keys() == {"error"}
    assert not first or first.split()[1] == status
    assert ask(server, "GET", "/echo")[0] == 200


def test_nothing_is_written_to_standard_error(server: HttpServer, capfd: pytest.CaptureFixture[str]) -> None:
    ask(server, "GET", "/echo")
    ask(server, "GET", "/nothing")
    send_raw(server, b"garbage\r\n\r\n")

    assert capfd.readouterr() == ("", "")


def test_requests_are_handled_at_the_same_time() -> None:
    together = threading.Barrier(3, timeout=ANSWER)

    def meet(request: HttpRequest) -> HttpResponse:
        together.wait()
        return json_response({})

    server = HttpServer(LOOPBACK, 0, {("GET", "/meet"): meet})
    server.start()
    try:
        clients = [threading.Thread(target=ask, args=(server, "GET", "/meet")) for _ in range(2)]
        for client in clients:
            client.start()
        together.wait()
        for client in clients:
            client.join()
    finally:
        server.close()


def test_a_connection_over_the_limit_is_closed(monkeypatch: pytest.MonkeyPatch, server: HttpServer) -> None:
    monkeypatch.setattr(refbroker_http, "CONNECTION_LIMIT", 1)
    with socket.create_connection((LOOPBACK, server.port), timeout=ANSWER) as first:
        with socket.create_connection((LOOPBACK, server.port), timeout=ANSWER) as second:
            assert second.recv(1) == b""
        first.sendall(b"GET /echo HTTP/1.0\r\n\r\n")
        assert first.recv(12) == b"HTTP/1.0 200"


def test_a_client_that_sends_nothing_is_closed(monkeypatch: pytest.MonkeyPatch, server: HttpServer) -> None:
    monkeypatch.setattr(refbroker_http._Handler, "timeout", 0.01)
    with socket.create_connection((LOOPBACK, server.port), timeout=ANSWER) as silent:
        assert silent.recv(1) == b""


def test_close_cuts_connections_that_have_sent_nothing() -> None:
    server = HttpServer(LOOPBACK, 0, ROUTES)
    server.start()
    with socket.create_connection((LOOPBACK, server.port), timeout=ANSWER) as silent:
        ask(server, "GET", "/echo")
        server.close()
        assert silent.recv(1) == b""
    with pytest.raises(ConnectionError):
        socket.create_connection((LOOPBACK, server.port), timeout=ANSWER)


class WatchedCondition(threading.Condition):
    """A condition that shows whether a thread has begun to wait for it."""

    has_waiter = False

    def wait(self, timeout: float | None = None) -> bool:
        self.has_waiter = True
        return super().wait(timeout)


def test_close_waits_for_a_request_that_is_being_handled(monkeypatch: pytest.MonkeyPatch) -> None:
    entered, closed = threading.Event(), threading.Event()
    connections = WatchedCondition()
    answers: list[tuple[int, dict[str, object]]] = []

    def slow(request: HttpRequest) -> HttpResponse:
        entered.set()
        wait_until(lambda: connections.has_waiter or closed.is_set())
        return json_response({"closed": closed.is_set()})

    closing = HttpServer(LOOPBACK, 0, {("GET", "/slow"): slow})
    closing.start()
    monkeypatch.setattr(closing._server, "_changed", connections)
    client = threading.Thread(target=lambda: answers.append(ask(closing, "GET", "/slow")))
    client.start()
    assert entered.wait(ANSWER)
    closing.close()
    closed.set()
    client.join(ANSWER)
    assert answers == [(200, {"closed": False})]


def test_close_gives_up_on_a_handler_that_does_not_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(refbroker_http, "CLOSE_SECONDS", 0.01)
    entered, leave = threading.Event(), threading.Event()

    def stuck(request: HttpRequest) -> HttpResponse:
        entered.set()
        leave.wait(ANSWER)
        return json_response({})

    server = HttpServer(LOOPBACK, 0, {("GET", "/stuck"): stuck})
    server.start()
    with socket.create_connection((LOOPBACK, server.port), timeout=ANSWER) as client:
        client.sendall(b"GET /stuck HTTP/1.0\r\n\r\n")
        assert entered.wait(ANSWER)
        with caplog.at_level(logging.WARNING, "refbroker.server.http"):
            server.close()
        assert "1 requests over HTTP did not end" in caplog.text
    leave.set()


def test_a_closed_server_starts_again_on_its_port(server: HttpServer) -> None:
    port = server.port
    server.close()
    server.close()
    server.start()

    assert server.port == port
    assert ask(server, "GET", "/echo")[0] == 200
    with pytest.raises(IllegalStateError):
        server.start()


def test_a_port_in_use_is_an_error_that_names_it(server: HttpServer) -> None:
    other = HttpServer(LOOPBACK, server.port, ROUTES)
    with pytest.raises(OSError, match=f"could not listen on 127.0.0.1:{server.port}"):
        other.start()


def test_it_listens_on_the_sixth_version_of_the_protocol_too() -> None:
    server = HttpServer("::1", 0, ROUTES)
    try:
        server.start()
    except OSError as error:
        pytest.skip(f"no IPv6 loopback here: {error}")
    try:
        with contextlib.closing(http.client.HTTPConnection("::1", server.port, timeout=ANSWER)) as connection:
            connection.request("GET", "/echo")
            assert connection.getresponse().status == 200
    finally:
        server.close()
