"""The poller and its channels, both twins: whole frames in, whole requests out, over local socket pairs."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kclient.net import io as pure
from kclient.net.events import CLOSED, CONNECTED, FRAME, SENT, BadFrame, PeerClosed
from tests.support.patience import ANSWER

try:
    from kclient.net import _io as compiled  # type: ignore[attr-defined]
except ImportError:
    compiled = None

TWINS = [pytest.param(pure, id="pure")]
if compiled is not None:
    TWINS.append(pytest.param(compiled, id="compiled"))


class Quiet:
    """A handler; events are looked at where `wait` returns them."""

    def on_event(self, event: int, value: Any, now: float) -> None:
        raise AssertionError


class Pair:
    """A poller's channel and the other end of it."""

    def __init__(self, poller: Any) -> None:
        self.poller = poller
        mine, self.peer = socket.socketpair()
        mine.setblocking(False)
        self.handler = Quiet()
        self.channel = poller.register(mine, self.handler)
        assert self.wait() == [(CONNECTED, None)]

    def wait(self, timeout: float = ANSWER) -> list[tuple[int, Any]]:
        return [(kind, value) for handler, kind, value in self.poller.wait(timeout) if handler is self.handler]

    def frames(self, count: int) -> list[bytes]:
        found: list[bytes] = []
        while len(found) < count:
            for kind, value in self.wait():
                assert kind == FRAME
                found.append(bytes(value))
        return found


@pytest.fixture(params=TWINS)
def poller(request: pytest.FixtureRequest) -> Iterator[Any]:
    made = request.param.Poller()
    yield made
    made.close()


@pytest.fixture
def pair(poller: Any) -> Iterator[Pair]:
    made = Pair(poller)
    yield made
    made.peer.close()
    made.channel.close()


def frame(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def test_frames_that_come_together_are_distinguished(pair: Pair) -> None:
    payloads = [bytes([number]) * (4 + number * 7) for number in range(20)]
    pair.peer.sendall(b"".join(map(frame, payloads)))
    assert pair.frames(20) == payloads


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 32763, 32764, 32765, 32768, 100_000, 3_000_000])
def test_a_frame_of_any_size_arrives_whole(pair: Pair, size: int) -> None:
    payload = random.Random(size).randbytes(size)
    sender = threading.Thread(target=pair.peer.sendall, args=(frame(payload),))
    sender.start()
    assert pair.frames(1) == [payload]
    sender.join()


def test_frames_in_any_pieces_arrive_whole(pair: Pair, rng: random.Random) -> None:
    payloads = [rng.randbytes(rng.choice([0, 2, 4, 10, 1000, 32760, 32764, 40_000, 70_000])) for _ in range(60)]
    stream = b"".join(map(frame, payloads))

    def send() -> None:
        position = 0
        while position < len(stream):
            step = rng.choice([1, 3, 100, 5000, 33_000, 90_000])
            pair.peer.sendall(stream[position : position + step])
            position += step

    sender = threading.Thread(target=send)
    sender.start()
    assert pair.frames(len(payloads)) == payloads
    sender.join()


def test_half_a_frame_is_no_event(pair: Pair) -> None:
    pair.peer.sendall(frame(b"whole") + frame(b"not whole")[:7])
    assert pair.frames(1) == [b"whole"]
    assert pair.wait(0.0) == []


@pytest.mark.parametrize(
    "head",
    [b"\xff\xff\xff\xff", b"HTTP/1.1 400 Bad Request\r\n", b"\x15\x03\x03\x00\x02\x02\x28"],
)
def test_a_size_that_cannot_be_ends_the_connection(pair: Pair, head: bytes) -> None:
    pair.channel.frame_limit = 1 << 20
    pair.peer.sendall(frame(b"fine") + head)
    events: list[tuple[int, Any]] = []
    while not events or events[-1][0] != CLOSED:
        events += pair.wait()
    assert [kind for kind, _ in events] == [FRAME, CLOSED]
    reason = events[-1][1]
    assert isinstance(reason, BadFrame)
    assert reason.head == head
    assert pair.wait(0.0) == []


@pytest.mark.parametrize("part", [b"", b"\0\0", frame(b"0123456789")[:9]])
def test_the_peers_end_is_reported_with_what_did_not_come_whole(pair: Pair, part: bytes) -> None:
    pair.peer.sendall(part)
    pair.peer.close()
    ((kind, reason),) = pair.wait()
    assert kind == CLOSED
    assert isinstance(reason, PeerClosed)
    assert bool(reason.head) == bool(part)
    assert not pair.channel.send([b"too late"])


def test_small_requests_are_sent_at_once(pair: Pair) -> None:
    assert pair.channel.send([b"ab", b"", memoryview(b"cd"), bytearray(b"ef")])
    assert pair.peer.recv(100) == b"abcdef"


def test_what_the_system_does_not_take_goes_out_while_waiting(pair: Pair) -> None:
    parts = [random.Random(1).randbytes(700_000) for _ in range(5)] + [b"tail"] * 200
    assert not pair.channel.send(parts, True)
    assert not pair.channel.send([b"and more"], True)
    wanted = b"".join(parts) + b"and more"
    received = bytearray()

    def receive() -> None:
        while len(received) < len(wanted):
            received.extend(pair.peer.recv(1 << 16))

    receiver = threading.Thread(target=receive)
    receiver.start()
    assert pair.wait() == [(SENT, None)]
    receiver.join(ANSWER)
    assert received == wanted
    assert pair.channel.send([b"x"])


def test_nobody_is_notified_of_what_went_out_unless_asked(pair: Pair) -> None:
    assert not pair.channel.send([bytes(5_000_000)])
    received = 0

    def receive() -> None:
        nonlocal received
        while received < 5_000_000:
            received += len(pair.peer.recv(1 << 16))
        pair.poller.wake()

    receiver = threading.Thread(target=receive)
    receiver.start()
    assert pair.wait() == []
    receiver.join(ANSWER)
    assert received == 5_000_000


def test_an_error_while_sending_is_reported_by_the_next_wait(pair: Pair) -> None:
    pair.peer.close()
    pair.channel.send([b"x" * 1000])
    events: list[tuple[int, Any]] = []
    while not events:
        events = pair.wait()
    assert events[0][0] == CLOSED
    assert pair.wait(0.0) == []


def test_a_connection_that_is_refused_says_why(poller: Any) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    sock = socket.socket()
    sock.setblocking(False)
    with pytest.raises(BlockingIOError):
        sock.connect(("127.0.0.1", port))
    handler = Quiet()
    channel = poller.register(sock, handler)
    ((_, kind, reason),) = poller.wait(ANSWER)
    assert kind == CLOSED
    assert isinstance(reason, ConnectionRefusedError)
    channel.close()


def test_wake_makes_wait_return_and_several_count_once(poller: Any) -> None:
    for _ in range(10):
        poller.wake()
    assert poller.wait(ANSWER) == []
    started = threading.Timer(0.05, poller.wake)
    started.start()
    assert poller.wait(ANSWER) == []
    started.join()
    poller.close()
    poller.wake()


def test_the_time_passes_without_events(pair: Pair) -> None:
    assert pair.wait(0.0) == []
    assert pair.wait(0.01) == []


def test_channels_come_and_go(poller: Any) -> None:
    pairs = [Pair(poller) for _ in range(40)]
    for gone in pairs[::3]:
        gone.channel.close()
        gone.channel.close()
        gone.peer.close()
    for kept in (pair for index, pair in enumerate(pairs) if index % 3):
        kept.peer.sendall(frame(b"still here"))
        assert kept.frames(1) == [b"still here"]
        kept.channel.close()
        kept.peer.close()


def test_a_large_frame_outlives_its_channel(poller: Any) -> None:
    pair = Pair(poller)
    payload = bytes(range(256)) * 1000
    sender = threading.Thread(target=pair.peer.sendall, args=(frame(payload),))
    sender.start()
    ((_, value),) = pair.wait()
    sender.join()
    view = memoryview(value)[100:200]
    del value
    pair.channel.close()
    pair.peer.close()
    assert bytes(view) == payload[100:200]


@pytest.mark.skipif(compiled is None, reason="not compiled")
def test_the_compiled_twin_counts_its_waits_for_the_gil_and_leaves_the_flag_down() -> None:
    from kclient.records import _handover  # type: ignore[attr-defined]

    before = _handover.statistics()["network_waits"]
    poller = compiled.Poller()
    pair = Pair(poller)
    pair.channel.send([bytes(200_000)])
    assert pair.peer.recv(10)
    assert poller.gil_waits > 0
    assert poller.gil_wait_max <= poller.gil_wait_seconds
    assert _handover.statistics()["network_waits"] == before
    pair.peer.close()
    poller.close()
