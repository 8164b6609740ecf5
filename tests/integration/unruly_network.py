"""The network of a client in this process, which cuts the connection at a request of a test's choice.

It works with whatever broker is behind it, since a request is known by its first bytes, which it reads before TLS
encrypts them. Omits what the broker might do instead: refbroker's faults do that.
"""

from __future__ import annotations

import struct
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from kclient.net.events import CLOSED, FRAME, Event, Handler, PeerClosed
from kclient.net.transport import Address, Channel
from kclient.protocol import Message
from kclient.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest
from kclient.protocol.messages.heartbeat import HeartbeatRequest
from kclient.protocol.messages.join_group import JoinGroupRequest
from kclient.protocol.messages.leave_group import LeaveGroupRequest
from kclient.protocol.messages.offset_commit import OffsetCommitRequest
from kclient.protocol.messages.offset_fetch import OffsetFetchRequest
from kclient.protocol.messages.sync_group import SyncGroupRequest

_OF_BOTH: list[type[Message]] = [OffsetCommitRequest, OffsetFetchRequest, FindCoordinatorRequest]
REQUESTS: dict[str, list[type[Message]]] = {
    "classic": [JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest, *_OF_BOTH],
    "consumer": [ConsumerGroupHeartbeatRequest, *_OF_BOTH],
}
"""What a member asks its coordinator, by the group's protocol."""

Connect = Callable[[Address, Handler], Channel]
"""Makes a channel to an address."""
_SIZE_AND_API_KEY = struct.Struct(">ih")


class Cuts:
    """What is to be cut, counted over all clients that use it.

    Attributes:
        done: how many connections were cut.
    """

    def __init__(self) -> None:
        self.done = 0
        self._lock = threading.Lock()
        self._left: dict[tuple[int, str], int] = {}

    def at(self, kind: type[Message], when: str, count: int) -> None:
        """Cut the connection at each of the next `count` requests, `before` or `after` the broker hears it."""
        with self._lock:
            self._left[kind.api_key, when] = count

    def strikes(self, api_key: int, when: str) -> bool:
        """Whether this request is one of them; the network thread of any client."""
        with self._lock:
            left = self._left.get((api_key, when), 0)
            self._left[api_key, when] = left - 1
            if left > 0:
                self.done += 1
            return left > 0


class _UnrulyChannel:
    """One connection, and the handler of its events."""

    def __init__(self, network: UnrulyNetwork, handler: Handler) -> None:
        self.network = network
        self.handler = handler
        self.channel: Channel
        self._answer_is_cut = False

    @property
    def frame_limit(self) -> int:
        return self.channel.frame_limit

    @frame_limit.setter
    def frame_limit(self, limit: int) -> None:
        self.channel.frame_limit = limit

    def send(self, parts: Sequence[Any], notify: bool = False) -> bool:
        _, api_key = _SIZE_AND_API_KEY.unpack_from(parts[0])
        cuts = self.network.cuts
        if cuts.strikes(api_key, "before"):
            self._cut()
            return False
        self._answer_is_cut |= cuts.strikes(api_key, "after")
        return self.channel.send(parts, notify)

    def close(self) -> None:
        self.channel.close()

    def on_event(self, event: int, value: Any, now: float) -> None:
        if event == FRAME and self._answer_is_cut:
            self._cut()
        else:
            self.handler.on_event(event, value, now)

    def _cut(self) -> None:
        self.channel.close()
        self.network.events.append((self.handler, CLOSED, PeerClosed()))
        self.network.wake()


class UnrulyNetwork:
    """The connections of one client, which end where a test says.

    It takes the place of two methods of the client's transport, on sockets as well as in a simulation. With TLS, whose
    channels carry no frames below, `over` puts it above the channels that encrypt.

    Parameters:
        cuts: where connections end.
        transport: of a client that is not made yet.
    """

    def __init__(self, cuts: Cuts, transport: Any) -> None:
        self.cuts = cuts
        self.events: deque[Event] = deque()
        self.wake: Callable[[], None] = transport.wake
        self._connect = transport.connect
        self._wait = transport.wait
        transport.connect, transport.wait = self.connect, self.wait

    def connect(self, address: Address, handler: Handler, *, raw: bool = False) -> Channel:
        """See Transport."""
        if raw:
            below: Channel = self._connect(address, handler, raw=True)
            return below
        return self.over(self._connect)(address, handler)

    def over(self, connect: Connect) -> Connect:
        """Return what connects through another function, and cuts these connections."""

        def connect_unruly(address: Address, handler: Handler) -> Channel:
            unruly = _UnrulyChannel(self, handler)
            unruly.channel = connect(address, unruly)
            return unruly

        return connect_unruly

    def wait(self, timeout: float) -> list[Event]:
        """See Transport."""
        events: list[Event] = self._wait(0.0 if self.events else timeout)
        while self.events:
            events.append(self.events.popleft())
        return events
