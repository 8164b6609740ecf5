"""The URLs of an OAuth provider: which are allowed, and which are files.

Elsewhere: requests to them (`endpoint`).
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from urllib.parse import urlsplit

from kclient.errors import ConfigError
from kclient.security.secret import MASK

_LOGIN = re.compile("//[^/?#]*@")
_DETAILS = re.compile("[?#].*", re.DOTALL)


def shown_url(url: str) -> str:
    """Return a URL for errors and logs, without the parts that may be secret; it need not be valid."""
    return _DETAILS.sub("", _LOGIN.sub(f"//{MASK}@", url))


def check_url(url: str, option: str) -> None:
    """Check that an endpoint may be used.

    Raises:
        ConfigError: it is no URL, or secrets would cross the network in plain text.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        parts, host = urlsplit(""), ""
    if parts.scheme == "file" and parts.path:
        return
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError(f"{option} must be a URL such as https://login.example.com/token, not {shown_url(url)!r}")
    if parts.username is not None:
        raise ConfigError(f"{option} must not contain a user or a password; there are options for them")
    if parts.scheme == "http" and not is_loopback(host):
        raise ConfigError(
            f"{option} must begin with https://, because the client's secret is sent there, not {shown_url(url)!r}"
        )


def file_of(url: str) -> Path | None:
    """Return the path of a file: URL; None for any other."""
    parts = urlsplit(url)
    return Path(parts.path) if parts.scheme == "file" else None


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, by its name or address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
