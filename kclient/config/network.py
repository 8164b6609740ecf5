"""The options of a client's connections, apart from those of security.

Elsewhere: how values are checked (`options`), and the effect of each option, where it is used.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from kclient.config.options import Option, milliseconds, size


class NetworkConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the connections to brokers."""

    bootstrap_servers: Annotated[
        str | Sequence[str],
        Option(
            'Brokers to connect to first: "host:port,host:port" or a sequence of them. The port is 9092 if it is '
            "missing."
        ),
    ] = "localhost:9092"
    client_id: Annotated[str, Option("The client's name in the logs, quotas and metrics of brokers.")] = "kclient"
    client_dns_lookup: Annotated[
        str,
        Option(
            "How a host name with several addresses is used.",
            choices=("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        ),
    ] = "use_all_dns_ips"
    request_timeout_ms: Annotated[int, milliseconds("How long to wait for the response to one request.", 1)] = 30_000
    reconnect_backoff_ms: Annotated[int, milliseconds("The first wait before connecting to a broker again.")] = 50
    reconnect_backoff_max_ms: Annotated[int, milliseconds("The longest wait before connecting again.")] = 1_000
    retry_backoff_ms: Annotated[int, milliseconds("The first wait before a failed request is retried.")] = 100
    retry_backoff_max_ms: Annotated[int, milliseconds("The longest wait before a failed request is retried.")] = 1_000
    socket_connection_setup_timeout_ms: Annotated[
        int, milliseconds("How long the first attempts to set up a connection may take.", 1)
    ] = 10_000
    socket_connection_setup_timeout_max_ms: Annotated[
        int, milliseconds("How long setting up a connection may take after several failures in a row.", 1)
    ] = 30_000
    connections_max_idle_ms: Annotated[
        int, milliseconds("Idle connections are closed after this long; -1 for never.", -1)
    ] = 540_000
    metadata_max_age_ms: Annotated[int, milliseconds("The longest time between two refreshes of the metadata.", 1)] = (
        300_000
    )
    metadata_recovery_strategy: Annotated[
        str, Option("What to do when no known broker responds (KIP-899).", choices=("rebootstrap", "none"))
    ] = "rebootstrap"
    metadata_recovery_rebootstrap_trigger_ms: Annotated[
        int, milliseconds("Start again from bootstrap_servers after this long without metadata (KIP-1102).")
    ] = 300_000
    send_buffer_bytes: Annotated[int, size("SO_SNDBUF of the sockets; -1 for the system's default.", -1)] = -1
    receive_buffer_bytes: Annotated[int, size("SO_RCVBUF of the sockets; -1 for the system's default.", -1)] = -1
