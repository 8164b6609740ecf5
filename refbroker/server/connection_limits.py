"""How many connections clients may have, and how fast they may open them.

`max.connections` of the broker and of a listener, `max.connections.per.ip` with its overrides, and the client quota
`connection_creation_rate` of an address (KIP-612). Kafka stops accepting at `max.connections`; this broker accepts, and
closes the connection.

Not implemented: `max.connection.creation.rate`. Source: KIP-306, KIP-402, KIP-612, Kafka's ConnectionQuotas.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from refbroker.config import BrokerConfig
from refbroker.metadata.image import ClusterImage
from refbroker.metadata.quotas import CONNECTION_CREATION_RATE, IP
from refbroker.quotas.rates import Rate, Window
from refbroker.runtime.clock import Clock

_MOST_RATES = 10_000
"""Addresses whose rate is kept; all are dropped when there are more."""


class Refusal(NamedTuple):
    """A connection that is not admitted.

    Attributes:
        reason: for the log.
        after_ms: how long to keep it open without reading it, which slows down clients that reconnect at once.
    """

    reason: str
    after_ms: int = 0


class ConnectionLimits:
    """Counts the connections of a server.

    Parameters:
        config: the limits, which may change while the broker runs.
        image: has the quotas of addresses.
        clock: measures rates.
    """

    def __init__(self, config: BrokerConfig, image: ClusterImage, clock: Clock) -> None:
        self._config = config
        self._image = image
        self._clock = clock
        self._by_address: Counter[str] = Counter()
        self._by_listener: Counter[str] = Counter()
        self._rates: dict[str, Rate] = {}

    def opened(self, listener: str, address: str) -> Refusal | None:
        """Count a new connection, and return why it is not admitted, if it is not.

        Parameters:
            listener: the name of the listener that accepted it.
            address: the IP address of the client.
        """
        self._by_address[address] += 1
        self._by_listener[listener] += 1
        limit = self._config.integer("max.connections")
        if self._by_listener.total() > limit:
            return Refusal(f"there are {limit} connections already")
        limit = int(self._config.listener_text(listener, "max.connections") or limit)
        if self._by_listener[listener] > limit:
            return Refusal(f"listener {listener} has {limit} connections already")
        limit = self._limit_of(address)
        if self._by_address[address] > limit:
            return Refusal(f"its address has {limit} connections already")
        return self._too_fast(address)

    def lost(self, listener: str, address: str) -> None:
        """Count a connection that is closed."""
        for counts, key in ((self._by_address, address), (self._by_listener, listener)):
            counts[key] -= 1
            if not counts[key]:
                del counts[key]

    def _limit_of(self, address: str) -> int:
        overrides = self._config.text("max.connections.per.ip.overrides") or ""
        for entry in filter(None, map(str.strip, overrides.split(","))):
            host, _, limit = entry.rpartition(":")
            if host == address:
                return int(limit)
        return self._config.integer("max.connections.per.ip")

    def _too_fast(self, address: str) -> Refusal | None:
        quotas = self._image.quotas
        if not quotas:
            return None
        found = [quotas.get((frozenset({(IP, name)}), CONNECTION_CREATION_RATE)) for name in (address, None)]
        quota = next((record.value for record in found if record is not None), None)
        if quota is None:
            return None
        if len(self._rates) >= _MOST_RATES:
            self._rates.clear()
        sample_ms = 1000 * self._config.integer("quota.window.size.seconds")
        window = Window(self._config.integer("quota.window.num"), sample_ms)
        rate, now = self._rates.setdefault(address, Rate(window)), self._clock()
        rate.record(1, now)
        throttle_ms = min(rate.throttle_ms(quota, now), sample_ms)
        if not throttle_ms:
            return None
        rate.record(-1, now)
        return Refusal(f"its address opens more than {quota:g} connections per second", throttle_ms)
