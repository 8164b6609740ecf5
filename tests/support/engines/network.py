"""A simulated network: seeded, on a clock of its own, with lost, late and repeated answers and cut connections.

Engines run without threads: `Simulation.run` runs their turns, delivers messages and moves the clock to the next event,
so that hours pass in milliseconds and a seed repeats a run exactly. Brokers are plain functions from request to
response.
"""

from __future__ import annotations

import errno
import heapq
import itertools
import os
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kclient.config import ClientConfig
from kclient.net.engine import Engine
from kclient.net.events import CLOSED, CONNECTED, FRAME, RESOLVED, Event, Handler, PeerClosed
from kclient.net.manager import NEVER
from kclient.net.transport import Address
from kclient.protocol import API_NAMES, Message, request_type
from kclient.protocol.frames import decode_request_header, encode_response
from kclient.protocol.headers import RequestHeader
from kclient.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse


class Later:
    """A delayed response; until it is given, the broker reads nothing more from that connection."""

    def __init__(self) -> None:
        self._message: Message | None = None
        self._take: Callable[[Message], None] | None = None

    def give(self, message: Message) -> None:
        """Set the response."""
        self._message = message
        if self._take is not None:
            self._take(message)

    def then(self, take: Callable[[Message], None]) -> None:
        """Call a function with the response, now or once it is set."""
        self._take = take
        if self._message is not None:
            take(self._message)


class Gone:
    """The broker drops the connection instead of responding."""


GONE = Gone()

Answer = Callable[[Message, int], Message | Later | Gone | None]
"""A broker's result for a request at a version; None never responds."""


class Faults(NamedTuple):
    """The probability (0 to 1) of each fault, for a connection attempt or a request."""

    refuse: float = 0.0
    lose_request: float = 0.0
    lose_answer: float = 0.0
    repeat_answer: float = 0.0
    cut_before: float = 0.0
    cut_after: float = 0.0
    late: float = 0.0
    delay: tuple[float, float] = (0.0002, 0.005)
    """Seconds that a message takes."""
    late_delay: tuple[float, float] = (0.5, 60.0)
    """Seconds that a late message takes; later messages on the same connection wait for it."""
    outlives: bool = True
    """Whether a request in flight arrives even if its connection is closed first."""
    stalls: bool = False
    """Whether no message after a lost one arrives either, as with TCP."""


NO_FAULTS = Faults()


class SimChannel:
    """One simulated connection."""

    def __init__(self, simulation: Simulation, host: str, handler: Handler, transport: SimTransport) -> None:
        self.frame_limit = 0
        self._simulation = simulation
        self._host = host
        self._handler = handler
        self._transport = transport
        self._closed = False
        self._next_arrival = 0.0
        self._busy = False
        self._is_reset = False
        self._has_stalled = False
        self._unread: deque[bytes] = deque()

    def deliver(self, kind: int, value: Any = None) -> None:
        if not self._closed:
            self._transport.inbox.append((self._handler, kind, value))
            if kind == CLOSED:
                self._closed = True

    def connect(self) -> None:
        simulation = self._simulation
        simulation.channels.setdefault(self._host, []).append(self)
        if self._host not in simulation.brokers or simulation.happens(simulation.faults.refuse):
            refused = OSError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
            simulation.later(simulation.delay(), lambda: self.deliver(CLOSED, refused))
        else:
            simulation.later(simulation.delay(), lambda: self.deliver(CONNECTED))

    def send(self, parts: Sequence[Any], notify: bool = False) -> bool:
        frame = b"".join(bytes(part) for part in parts)[4:]
        simulation, faults = self._simulation, self._simulation.faults
        if simulation.happens(faults.cut_before):
            self._in_order(lambda: self.deliver(CLOSED, PeerClosed()))
        elif not self._loses(faults.lose_request):
            self._in_order(lambda: self._arrive(frame))
        return True

    def _loses(self, chance: float) -> bool:
        """Return whether a message gets lost."""
        lost = self._simulation.happens(chance)
        self._has_stalled |= lost and self._simulation.faults.stalls
        return lost or self._has_stalled

    def close(self) -> None:
        self._closed = True

    def reset(self) -> None:
        """Close the broker's end; messages in flight to it are lost."""
        self._is_reset = True
        if not self._closed:
            self._simulation.later(self._simulation.delay(), lambda: self.deliver(CLOSED, PeerClosed()))

    def _arrive(self, frame: bytes) -> None:
        if self._is_reset:
            return
        if self._closed and not self._simulation.faults.outlives:
            return
        if self._busy:
            self._unread.append(frame)
            return
        simulation = self._simulation
        answer_to = simulation.brokers.get(self._host)
        if answer_to is None:
            self.deliver(CLOSED, PeerClosed())
            return
        header, body = decode_request_header(frame)
        request = request_type(header.request_api_key).decode(body, header.request_api_version)
        simulation.requests += 1
        answer = answer_to(request, header.request_api_version)
        if isinstance(answer, Gone):
            self.reset()
            return
        if not isinstance(answer, Later):
            self._answer(header, answer)
            return
        self._busy = True

        def answered(message: Message) -> None:
            self._busy = False
            self._answer(header, message)
            while self._unread and not self._busy:
                self._arrive(self._unread.popleft())

        answer.then(answered)

    def _answer(self, header: RequestHeader, answer: Message | None) -> None:
        simulation, faults = self._simulation, self._simulation.faults
        if simulation.happens(faults.cut_after):
            self._in_order(lambda: self.deliver(CLOSED, PeerClosed()))
            return
        if answer is None or self._loses(faults.lose_answer):
            return
        parts = encode_response(answer, header.request_api_version, header.correlation_id)
        data = b"".join(bytes(part) for part in parts)[4:]
        for _ in range(2 if simulation.happens(faults.repeat_answer) else 1):
            self._in_order(lambda: self.deliver(FRAME, data))

    def _in_order(self, action: Callable[[], None]) -> None:
        """Run an action after those before it: TCP keeps the order of messages."""
        simulation = self._simulation
        late = simulation.happens(simulation.faults.late)
        arrival = simulation.now + (simulation.uniform(simulation.faults.late_delay) if late else simulation.delay())
        self._next_arrival = max(self._next_arrival, arrival)
        simulation.at(self._next_arrival, action)


class SimTransport:
    """The transport of one simulated client."""

    def __init__(self, simulation: Simulation) -> None:
        self.inbox: list[Event] = []
        self.woken = True
        self._simulation = simulation

    def resolve(self, host: str, port: int, handler: Handler, *, canonical: bool = False) -> None:
        address = Address(2, (host, port))
        self._simulation.later(self._simulation.delay(), lambda: self.inbox.append((handler, RESOLVED, [address])))

    def connect(self, address: Address, handler: Handler, *, raw: bool = False) -> SimChannel:
        channel = SimChannel(self._simulation, address.sockaddr[0], handler, self)
        channel.connect()
        return channel

    def wait(self, timeout: float) -> list[Event]:
        self.woken = False
        events, self.inbox = self.inbox, []
        return events

    def wake(self) -> None:
        self.woken = True

    def close(self) -> None:
        self.inbox.clear()


class Simulation:
    """A network with its clock, its brokers (by host name) and its clients.

    Parameters:
        seed: repeats a run.
        faults: the faults; may be changed while it runs.
        wakes_all: whether every client runs a turn after each action; otherwise only clients that were woken run, as in
            reality.
    """

    def __init__(self, seed: int, faults: Faults = NO_FAULTS, *, wakes_all: bool = True) -> None:
        self._wakes_all = wakes_all
        self.random = random.Random(seed)
        self.faults = faults
        self.now = 1000.0
        self.brokers: dict[str, Answer] = {}
        self.channels: dict[str, list[SimChannel]] = {}
        self.requests = 0
        self._actions: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._clients: list[tuple[Engine, SimTransport]] = []
        self._due: dict[Engine, float] = {}

    def engine(self, config: ClientConfig) -> Engine:
        """Create a client, which is never started; managers can be added to it as usual."""
        transport = SimTransport(self)
        engine = Engine(config, clock=lambda: self.now, random=random.Random(self.random.random()), transport=transport)
        self._clients.append((engine, transport))
        self._due[engine] = self.now
        return engine

    def drop(self, engine: Engine) -> None:
        """Remove a client; messages in flight to it are dropped."""
        self._clients = [client for client in self._clients if client[0] is not engine]
        self._due.pop(engine, None)

    def end_broker(self, host: str) -> None:
        """End the process of a broker and its connections; a new broker may take its place."""
        del self.brokers[host]
        for channel in self.channels.pop(host, ()):
            channel.reset()

    def run(self, seconds: float, *, until: Callable[[], bool] = lambda: False) -> None:
        """Let time pass, until a condition holds or for this many seconds of the simulation's clock."""
        end = self.now + seconds
        # Tests act on a client between its turns; a real client would be woken within `wait`.
        self._wake_all()
        while not until():
            self._make_turns()
            following = min((self._actions[0][0] if self._actions else NEVER, *self._due.values()))
            if following > end:
                self.now = end
                return
            self.now = max(self.now, following)
            while self._actions and self._actions[0][0] <= self.now:
                heapq.heappop(self._actions)[2]()
                self._wake_all()

    def _wake_all(self) -> None:
        if self._wakes_all:
            self._due = dict.fromkeys(self._due, self.now)

    def _make_turns(self) -> None:
        for engine, transport in self._clients:
            for _ in range(1000):
                if not (transport.inbox or transport.woken or engine.wants_turn or self._due[engine] <= self.now):
                    break
                seconds = engine.run_turn(0.0)
                # Below a microsecond, adding to the clock may round to nothing.
                self._due[engine] = self.now + (max(seconds, 1e-6) if seconds else 0.0)
            else:
                raise AssertionError(f"a client makes turn after turn at {self.now}, and nothing happens")

    def at(self, when: float, action: Callable[[], object]) -> None:
        """Run an action at a time."""
        heapq.heappush(self._actions, (when, next(self._numbers), action))

    def later(self, seconds: float, action: Callable[[], object]) -> None:
        """Run an action after some seconds."""
        self.at(self.now + seconds, action)

    def happens(self, chance: float) -> bool:
        return chance > 0 and self.random.random() < chance

    def uniform(self, bounds: tuple[float, float]) -> float:
        return self.random.uniform(*bounds)

    def delay(self) -> float:
        return self.uniform(self.faults.delay)


def with_api_versions(answer: Answer) -> Answer:
    """Return a broker that answers ApiVersions with everything available, and other requests with a function."""
    keys = [
        ApiVersionsResponse.ApiVersion(
            api_key=key, min_version=request_type(key).min_version, max_version=request_type(key).max_version
        )
        for key in API_NAMES
    ]

    def both(request: Message, version: int) -> Message | Later | Gone | None:
        if isinstance(request, ApiVersionsRequest):
            return ApiVersionsResponse(api_keys=keys)
        return answer(request, version)

    return both
