"""The parts of a broker that the server uses: those of its handlers, and what the dispatcher and the metrics need."""

from __future__ import annotations

from typing import Protocol

from refbroker.handlers.services import BrokerServices
from refbroker.log.compaction.manager import LogCleaner
from refbroker.metadata.log import MetadataLog


class ServerServices(BrokerServices, Protocol):
    """What the server needs."""

    @property
    def cleaner(self) -> LogCleaner:
        """Compacts logs."""

    @property
    def metadata(self) -> MetadataLog:
        """The metadata log, to which the changes are appended that handlers return."""
