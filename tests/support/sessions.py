"""Whether a client has kept its connections over the ends of its sessions."""

from __future__ import annotations

from typing import Any

from kclient.net.runtime import ThreadRuntime, current


def check_connections(client: Any, most: int) -> None:
    """Check that a client has made no more connections than these, where time is simulated.

    On a busy machine a client may log in again too late; it then connects again and loses nothing, either.
    """
    if not isinstance(current(), ThreadRuntime):
        assert client.metrics()["connection_creation_total"] <= most
