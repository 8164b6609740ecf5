"""The metrics of client quotas and of connection rates: how much is used, and how long clients are throttled.

The labels are those of the quota that applies: a quota of a user has no client id. A quota that no client has used in
the last hour is missing.
"""

from __future__ import annotations

from refbroker.metadata.quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from refbroker.metrics import table
from refbroker.metrics.samples import Samples
from refbroker.quotas.client_quotas import ClientQuotas
from refbroker.server.connection_limits import ConnectionLimits

_BY_KEY = {
    PRODUCER_BYTE_RATE: (table.PRODUCE_RATE, table.PRODUCE_THROTTLE),
    CONSUMER_BYTE_RATE: (table.FETCH_RATE, table.FETCH_THROTTLE),
    REQUEST_PERCENTAGE: (table.REQUEST_RATE, table.REQUEST_THROTTLE),
    CONTROLLER_MUTATION_RATE: (table.MUTATION_RATE, table.MUTATION_THROTTLE),
}


def collect(quotas: ClientQuotas, limits: ConnectionLimits, samples: Samples) -> None:
    """Add the metrics."""
    samples.add(table.BROKER_CONNECTION_RATE, limits.broker_rate)
    for listener, listener_use in limits.listener_uses().items():
        samples.add(table.CONNECTION_RATE, listener_use.rate, listener)
        samples.add(table.CONNECTION_THROTTLE, listener_use.throttle_ms, listener)
        samples.add(table.ADDRESS_THROTTLE, listener_use.address_throttle_ms, listener)
    for use in quotas.uses():
        labels = (use.share.user or "", use.share.client_id or "")
        rate, throttle = _BY_KEY[use.share.key]
        samples.add(rate, use.rate, *labels)
        samples.add(throttle, use.throttle_ms, *labels)
        if use.share.key == CONTROLLER_MUTATION_RATE:
            samples.add(table.MUTATION_TOKENS, use.tokens, *labels)
