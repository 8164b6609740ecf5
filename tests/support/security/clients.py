"""Clients of a secured run: every client gets the options of the broker whose port is in its bootstrap servers.

The tests make their clients as in any other run, with `bootstrap_servers` alone. `secure_clients` has the options added
where a client's config is built. So every test is part of a secured run, and none has to pass options on. Processes
that the tests start read the same options from the environment (`processes/sitecustomize.py`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from kclient.config import ClientConfig

VARIABLE = "KCLIENT_TEST_SECURITY"
"""The environment variable with the options of clients, by the ports of brokers."""


def register(bootstrap_servers: str, options: Mapping[str, Any]) -> None:
    """Remember what clients of a broker need from now on.

    Parameters:
        bootstrap_servers: its addresses.
        options: the options of clients, without `bootstrap_servers`.
    """
    _change({port: dict(options) for port in _ports(bootstrap_servers)})


def forget(bootstrap_servers: str) -> None:
    """Let clients of these addresses connect without security: another broker may have their ports next."""
    _change(dict.fromkeys(_ports(bootstrap_servers)))


def options_of(bootstrap_servers: str | Sequence[str]) -> dict[str, Any]:
    """Return what clients need for a broker; nothing for one that is not registered."""
    known = json.loads(os.environ.get(VARIABLE, "{}"))
    return next((known[port] for port in _ports(bootstrap_servers) if port in known), {})


def secure_clients() -> None:
    """Add the options where configs are built, unless a client says itself how it connects."""
    original = ClientConfig.from_options.__func__  # type: ignore[attr-defined]

    def from_options(cls: type[ClientConfig], options: Mapping[str, Any]) -> ClientConfig:
        if not options.keys() & {"security_protocol", "ssl_context"}:
            servers = options.get("bootstrap_servers")
            options = {**(options_of(servers) if isinstance(servers, str | Sequence) else {}), **options}
        made: ClientConfig = original(cls, options)
        return made

    ClientConfig.from_options = classmethod(from_options)  # type: ignore[method-assign, assignment]


def _change(options: Mapping[str, dict[str, Any] | None]) -> None:
    known = {**json.loads(os.environ.get(VARIABLE, "{}")), **options}
    os.environ[VARIABLE] = json.dumps({port: one for port, one in known.items() if one is not None})


def _ports(bootstrap_servers: str | Sequence[str]) -> list[str]:
    addresses = bootstrap_servers.split(",") if isinstance(bootstrap_servers, str) else bootstrap_servers
    return [str(address).rpartition(":")[2].strip() for address in addresses]
