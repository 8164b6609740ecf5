"""How many connections clients may have, and how fast they may open them.

`max.connections` and `max.connection.creation.rate` of the broker and of a listener, and the limits of addresses. The
listener of the brokers (see `Listeners.inter_broker`) is protected from clients of the others: the limits of the broker
do not hold it up.

Elsewhere: the limits of addresses (`address_limits`), how a listener waits (`accepting`). Source: KIP-306, KIP-402,
KIP-612, Kafka's ConnectionQuotas.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from refbroker.config import BrokerConfig
from refbroker.quotas.rates import METRICS_WINDOW, Average, Rate, Window
from refbroker.runtime.clock import Clock
from refbroker.server.address_limits import AddressLimits

_MOST_RATES = 10_000
"""Addresses whose rate is kept; all are dropped when there are more."""
_MOST = "max.connections"
_FASTEST = "max.connection.creation.rate"


class Refusal(NamedTuple):
    """A connection that is not admitted.

    Attributes:
        reason: for the log.
        after_ms: how long to keep it open without reading it, which slows down clients that reconnect at once.
    """

    reason: str
    after_ms: int = 0


class ListenerUse(NamedTuple):
    """How fast clients connect to a listener.

    Attributes:
        rate: connections per second.
        throttle_ms: the average time that connections wait for the rates of the listener and of the broker.
        address_throttle_ms: the average time that connections are held for the rate of their address.
    """

    rate: float
    throttle_ms: float
    address_throttle_ms: float


class ConnectionLimits:
    """Counts the connections of a server.

    Parameters:
        config: the limits, which may change while the broker runs.
        addresses: the limits of addresses.
        clock: measures rates.
    """

    def __init__(self, config: BrokerConfig, addresses: AddressLimits, clock: Clock) -> None:
        self._config = config
        self._addresses = addresses
        self._clock = clock
        self._sample_ms = 1000 * config.integer("quota.window.size.seconds")
        self._window = Window(config.integer("quota.window.num"), self._sample_ms)
        self._by_address: Counter[str] = Counter()
        self._by_listener: Counter[str] = Counter()
        self._broker_rate = Rate(self._window)
        names = [listener.name for listener in config.listeners.all]
        self._listener_rates = {name: Rate(self._window) for name in names}
        self._waits = {name: Average(METRICS_WINDOW) for name in names}
        self._holds = {name: Average(METRICS_WINDOW) for name in names}
        self._address_rates: dict[str, Rate] = {}

    def is_protected(self, listener: str) -> bool:
        """Return whether a listener is that of the brokers, and clients can use another one."""
        listeners = self._config.listeners
        return listener == listeners.inter_broker and len(listeners.all) > 1

    def throttle_ms(self, listener: str) -> int:
        """Record a connection, and return how long it has to wait for the rates of its listener and of the broker."""
        waits = [self._record(self._listener_rates[listener], self._listener_limit(listener, _FASTEST))]
        if not self.is_protected(listener):
            waits.append(self._record(self._broker_rate, self._config.integer(_FASTEST)))
        wait_ms = max(waits)
        if wait_ms:
            self._waits[listener].record(wait_ms, self._clock())
        return wait_ms

    def listener_uses(self) -> dict[str, ListenerUse]:
        """Return how fast clients connect, by listener."""
        now = self._clock()
        return {
            name: ListenerUse(rate.measure(now), self._waits[name].measure(now), self._holds[name].measure(now))
            for name, rate in self._listener_rates.items()
        }

    @property
    def broker_rate(self) -> float:
        """The connections per second of the listeners that the limits of the broker hold up."""
        return self._broker_rate.measure(self._clock())

    def obstacle(self, listener: str) -> str | None:
        """Return why a listener may not have another connection now; None if it may."""
        limit = self._listener_limit(listener, _MOST)
        if self._by_listener[listener] >= limit:
            return f"the listener {listener} has {limit} connections already"
        limit = self._config.integer(_MOST)
        if self.is_protected(listener) or self._by_listener.total() < limit:
            return None
        return f"the broker has {limit} connections already"

    @property
    def excess(self) -> int:
        """The connections above the limit of the broker: the limit was lowered, or the brokers' listener has more."""
        return self._by_listener.total() - self._config.integer(_MOST)

    def admit(self, listener: str, address: str) -> Refusal | None:
        """Count a connection, or return why its address may not have it.

        Parameters:
            listener: the name of the listener that accepted it.
            address: the IP address of the client, in Java's form.
        """
        refusal = self._too_fast(listener, address)
        if refusal is not None:
            return refusal
        limit = self._addresses.most(address)
        if self._by_address[address] >= limit:
            return Refusal(f"its address has {limit} connections already")
        self._by_address[address] += 1
        self._by_listener[listener] += 1
        return None

    def release(self, listener: str, address: str) -> None:
        """Count a connection that was admitted, and is closed."""
        for counts, key in ((self._by_address, address), (self._by_listener, listener)):
            counts[key] -= 1
            if not counts[key]:
                del counts[key]

    def _listener_limit(self, listener: str, setting: str) -> int:
        return int(self._config.listener_text(listener, setting) or 0)

    def _record(self, rate: Rate, limit: float) -> int:
        """Add a connection to a rate, and return how long it takes until the rate is down to a limit, at most a sample.

        Parameters:
            limit: connections per second.
        """
        now = self._clock()
        rate.record(1, now)
        return self._sample_ms if limit <= 0 else min(rate.throttle_ms(limit, now), self._sample_ms)

    def _too_fast(self, listener: str, address: str) -> Refusal | None:
        quota = self._addresses.rate(address)
        if quota is None:
            return None
        if len(self._address_rates) >= _MOST_RATES:
            self._address_rates.clear()
        rate = self._address_rates.setdefault(address, Rate(self._window))
        throttle_ms = self._record(rate, quota)
        if not throttle_ms:
            return None
        # A connection that is refused counts nowhere, so that clients of other addresses do not wait for it.
        refused = [rate, self._listener_rates[listener]]
        if not self.is_protected(listener):
            refused.append(self._broker_rate)
        for each in refused:
            each.record(-1, self._clock())
        self._holds[listener].record(throttle_ms, self._clock())
        return Refusal(f"its address opens more than {quota:g} connections per second", throttle_ms)
