"""Which pending connection is closed for a new one."""

from __future__ import annotations

import pytest

from refbroker.server import pending_connections
from refbroker.server.pending_connections import PendingConnections


class Crowd:
    """Pending connections by number, and those that were dropped."""

    def __init__(self) -> None:
        self.pending = PendingConnections()
        self.dropped: list[int] = []

    def add(self, listener: str, *numbers: int) -> None:
        for number in numbers:
            self.pending.add(listener, number, lambda reason, number=number: self.dropped.append(number))  # type: ignore[misc]


@pytest.fixture
def crowd(monkeypatch: pytest.MonkeyPatch) -> Crowd:
    monkeypatch.setattr(pending_connections, "MOST_PENDING", 3)
    return Crowd()


def test_the_oldest_connection_is_closed(crowd: Crowd) -> None:
    crowd.add("A", 1, 2, 3)
    assert not crowd.dropped
    crowd.add("A", 4, 5)
    assert crowd.dropped == [1, 2]
    assert len(crowd.pending) == 3


def test_a_flooded_listener_loses_its_own_connections(crowd: Crowd) -> None:
    crowd.add("INSIDE", 1)
    crowd.add("OUTSIDE", 2, 3, 4, 5)
    assert crowd.dropped == [2, 3]


def test_a_connection_that_is_ready_makes_room(crowd: Crowd) -> None:
    crowd.add("A", 1, 2, 3)
    crowd.pending.discard("A", 1)
    crowd.pending.discard("A", 1)
    crowd.pending.discard("B", 1)
    crowd.add("A", 4)
    assert not crowd.dropped


def test_a_connection_keeps_its_age_after_its_handshake(crowd: Crowd) -> None:
    crowd.add("A", 1, 2, 3)
    crowd.add("A", 1)
    assert len(crowd.pending) == 3
    crowd.add("A", 4)
    assert crowd.dropped == [1]
