"""The limits of connections that apply to single addresses, by address.

`max.connections.per.ip.overrides` and the client quota `connection_creation_rate` name IP addresses or host names. A
host name is looked up when it is set and when the broker starts, as in Kafka, but without holding up connections: until
its address is known, the default applies to that address. If several names are those of one address, the limit of the
address itself outweighs.

Differs from Kafka: an override whose host name is unknown is logged, and does not prevent the start. Source: KIP-306,
KIP-612, Kafka's ConnectionQuotas and ClientQuotaMetadataManager.
"""

from __future__ import annotations

import asyncio
import logging

from refbroker.config import BrokerConfig
from refbroker.metadata.image import ClusterImage
from refbroker.metadata.quotas import CONNECTION_CREATION_RATE, IP
from refbroker.runtime.addresses import NameLookups, java_address
from refbroker.settings.cross_checks import connections_per_ip

logger = logging.getLogger(__name__)


class AddressLimits:
    """The limits of addresses.

    Parameters:
        config: has the limits of the number of connections.
        image: has the limits of their rate.
        lookups: looks up host names.
    """

    def __init__(self, config: BrokerConfig, image: ClusterImage, lookups: NameLookups) -> None:
        self._config = config
        self._image = image
        self._lookups = lookups
        self._most: dict[str, int] = {}
        self._rates: dict[str, float] = {}
        self._default_rate: float | None = None
        # The address of each name in the settings and quotas; None if it has none.
        self._addresses: dict[str, str | None] = {}
        self._pending: dict[str, asyncio.Task[None]] = {}

    def most(self, address: str) -> int:
        """Return how many connections an address may have, in Java's form."""
        found = self._most.get(address)
        return self._config.integer("max.connections.per.ip") if found is None else found

    def rate(self, address: str) -> float | None:
        """Return how many connections an address may open per second; None for no limit."""
        return self._rates.get(address, self._default_rate)

    def update(self) -> None:
        """Apply the current settings and quotas, and begin to look up their host names."""
        names = self._most_by_name().keys() | self._rates_by_name().keys()
        for name in self._addresses.keys() - names:
            del self._addresses[name]
        for name in self._pending.keys() - names:
            self._pending.pop(name).cancel()
        for name in sorted(names - self._addresses.keys() - self._pending.keys()):
            address = java_address(name)
            if address is not None:
                self._addresses[name] = address
            else:
                self._pending[name] = asyncio.get_running_loop().create_task(self._look_up(name))
        self._apply()

    def close(self) -> None:
        """End the lookups that run."""
        for task in self._pending.values():
            task.cancel()

    async def _look_up(self, name: str) -> None:
        address = await self._lookups.address_of(name)
        del self._pending[name]
        self._addresses[name] = address
        if address is None:
            logger.warning("the limits of connections of %s have no effect: it is not a known host name", name)
        else:
            logger.info("the limits of connections of %s are those of %s", name, address)
        self._apply()

    def _apply(self) -> None:
        most, rates = self._most_by_name(), self._rates_by_name()
        self._default_rate = next(
            (quota.value for (entity, key), quota in self._image.quotas.items() if _is_default(entity, key)), None
        )
        self._most.clear()
        self._rates.clear()
        # Addresses come last, so that they outweigh names.
        for name in sorted(self._addresses, key=lambda name: (java_address(name) is not None, name)):
            address = self._addresses[name]
            if address is not None and name in most:
                self._most[address] = most[name]
            if address is not None and name in rates:
                self._rates[address] = rates[name]

    def _most_by_name(self) -> dict[str, int]:
        return connections_per_ip(self._config.text("max.connections.per.ip.overrides") or "")

    def _rates_by_name(self) -> dict[str, float]:
        return {
            name: quota.value
            for (entity, key), quota in self._image.quotas.items()
            for kind, name in entity
            if kind == IP and name is not None and key == CONNECTION_CREATION_RATE
        }


def _is_default(entity: frozenset[tuple[str, str | None]], key: str) -> bool:
    return key == CONNECTION_CREATION_RATE and (IP, None) in entity
