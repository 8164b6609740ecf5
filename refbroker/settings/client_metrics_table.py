"""The settings of a client metrics subscription in Kafka 4.3 (KIP-714).

One setting per line, in the notation of `definitions`.
"""

from __future__ import annotations

CLIENT_METRICS_TABLE = """
interval.ms int 300000 * D
match list "" * D
metrics list "" * D
"""

LEAST_INTERVAL_MS = 100
MOST_INTERVAL_MS = 3_600_000

MATCH_PARAMETERS = frozenset(
    {
        "client_id",
        "client_instance_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)
"""The properties by which `match` selects clients."""
