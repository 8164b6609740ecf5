"""The list of bootstrap servers: reading and checks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kclient.config.security_values import LISTENERS, PLAINTEXT
from kclient.errors import ConfigError

_SERVER = re.compile(
    r"(?:(?P<scheme>[A-Za-z_]+)://)?(?:\[(?P<v6>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^\[\]:/\s]+))(?::(?P<port>[0-9]+))?"
)
_DEFAULT_PORT = 9092


def parse_servers(servers: str | Sequence[str], protocol: str = PLAINTEXT) -> list[tuple[str, int]]:
    """Return the hosts and ports in `bootstrap_servers`.

    Parameters:
        servers: `host:port`, separated by commas or as a sequence; the port is 9092 if it is missing, and an IPv6
            address is in brackets. A listener's `PLAINTEXT://` before the host is accepted, if it is the protocol.
        protocol: the security protocol.

    Returns:
        Hosts and ports, each pair once.

    Raises:
        ConfigError: an entry is malformed; the message names it.
    """
    entries = servers.split(",") if isinstance(servers, str) else list(servers)
    found: dict[tuple[str, int], None] = {}
    for entry in entries:
        if not isinstance(entry, str):
            raise ConfigError(f'bootstrap_servers must consist of "host:port" strings, not {entry!r}')
        text = entry.strip()
        if not text:
            continue
        match = _SERVER.fullmatch(text)
        if match is None or text.isdigit():
            raise ConfigError(f'a bootstrap server is "host:port" (IPv6: "[::1]:9092"), not {text!r}')
        scheme = match["scheme"]
        if scheme and scheme.upper() not in LISTENERS:
            raise ConfigError(f"bootstrap server {text!r}: {scheme} is not one of {', '.join(LISTENERS)}")
        if scheme and scheme.upper() != protocol:
            raise ConfigError(f'bootstrap server {text!r} contradicts security_protocol="{protocol}"')
        port = int(match["port"] or _DEFAULT_PORT)
        if not 0 < port < 65536:
            raise ConfigError(f"bootstrap server {text!r}: a port is from 1 to 65535, not {port}")
        found[match["v6"] or match["host"], port] = None
    if not found:
        raise ConfigError('bootstrap_servers is empty; it must be "host:port", or several separated by commas')
    return list(found)
