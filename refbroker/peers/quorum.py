"""Which controllers there are, and which of them leads: what this node knows of the quorum.

The addresses come from `controller.quorum.voters` or `controller.quorum.bootstrap.servers`. Responses name the leader
and its address. While the leader is unknown, or does not respond, the controllers are asked in turn. Elsewhere: the
requests (`controller_channel`, `refbroker.raft.observer`). Source: KIP-595, KIP-853.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kclient.errors import ConfigError
from refbroker.config import BrokerConfig
from refbroker.peers.network import Peer
from refbroker.settings.values import parse_list

NO_LEADER = -1
VOTERS = "controller.quorum.voters"
BOOTSTRAP = "controller.quorum.bootstrap.servers"


def quorum_addresses(config: BrokerConfig) -> list[Peer]:
    """Return the controllers that the settings name; those of the voters come first.

    Raises:
        ConfigError: an entry is malformed, or none is named.
    """
    found = []
    for text in parse_list(config.static.get(VOTERS, "")):
        node, at, address = text.partition("@")
        if not at or not node.isdecimal():
            raise ConfigError(f"{VOTERS} must have the form id@host:port,..., not {text!r}")
        found.append(_peer(int(node), address, VOTERS, text))
    found += [_peer(NO_LEADER, text, BOOTSTRAP, text) for text in parse_list(config.static.get(BOOTSTRAP, ""))]
    if not found:
        raise ConfigError(f"a broker under other controllers needs {VOTERS} or {BOOTSTRAP}")
    return found


def _peer(node: int, address: str, setting: str, text: str) -> Peer:
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) <= 65535:
        raise ConfigError(f"{setting} has {text!r}, which names no host and port")
    return Peer(node, host.strip("[]"), int(port))


class ControllerQuorum:
    """The controllers as this node knows them.

    Parameters:
        addresses: those of the settings, at least one.

    Attributes:
        epoch: the leader epoch; it never falls.
        leader: the active controller; None while it is unknown or does not respond.
    """

    def __init__(self, addresses: Sequence[Peer]) -> None:
        assert addresses
        self._addresses = list(addresses)
        self._turn = 0
        self.epoch = 0
        self.leader: Peer | None = None
        self._waiters: list[asyncio.Future[None]] = []

    def learn(self, leader_id: int, epoch: int, endpoint: Peer | None = None) -> bool:
        """Take what a response says about the leader; return whether it is of the current epoch or a later one.

        Parameters:
            leader_id: the leader, -1 if the sender knows none.
            endpoint: the leader's address; without it, that of the settings counts.
        """
        if epoch < self.epoch:
            return False
        if epoch > self.epoch:
            self.epoch, self.leader = epoch, None
        found = None if leader_id < 0 else endpoint or self._configured(leader_id)
        if found is not None and found != self.leader:
            self.leader = found
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
        return True

    def forget(self, peer: Peer) -> None:
        """Note that a node does not respond as the active controller; others are asked who leads."""
        if self.leader is not None and (self.leader.host, self.leader.port) == (peer.host, peer.port):
            self.leader = None

    def next(self) -> Peer:
        """Return the node to ask: the leader; while it is unknown, each of the settings in turn."""
        if self.leader is not None:
            return self.leader
        self._turn += 1
        return self._addresses[(self._turn - 1) % len(self._addresses)]

    def changed(self) -> asyncio.Future[None]:
        """Return a future that completes when another leader becomes known."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters = [each for each in self._waiters if not each.done()]
        self._waiters.append(waiter)
        return waiter

    def _configured(self, leader_id: int) -> Peer | None:
        return next((peer for peer in self._addresses if peer.node_id == leader_id), None)
