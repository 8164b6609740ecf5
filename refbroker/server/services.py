"""The parts of a broker that the server uses: those of the handlers, and those of the dispatcher and the metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from refbroker.handlers.services import BrokerServices
from refbroker.log.compaction.manager import LogCleaner
from refbroker.metadata.replica import MetadataReplica
from refbroker.quotas.client_quotas import ClientQuotas

if TYPE_CHECKING:
    # Only brokers under other controllers need its code.
    from refbroker.peers.forwarding import Forwarder


class ServerServices(BrokerServices, Protocol):
    """The parts that the server needs."""

    @property
    def cleaner(self) -> LogCleaner:
        """Compacts logs."""

    @property
    def quotas(self) -> ClientQuotas:
        """Limits how much clients use."""

    @property
    def forwarder(self) -> Forwarder | None:
        """Forwards requests of clients to the active controller; None on the node of the active controller."""

    @property
    def metadata(self) -> MetadataReplica:
        """The metadata log."""
