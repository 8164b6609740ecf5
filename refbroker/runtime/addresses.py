"""IP addresses as Java writes them, and lookups of host names that do not block the event loop.

A lookup runs in a thread of its own, which nothing waits for: `getaddrinfo` cannot be interrupted, and takes long when
no name server responds. On a simulated machine it runs inline.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import ipaddress
import socket
import threading
from collections.abc import Callable
from typing import Any

AT_ONCE = 4
"""Lookups that run at a time."""


def java_address(text: str) -> str | None:
    """Return an IP address in the form that Java gives it; None if the text is not one.

    An IPv4 address in the form of IPv6, as a listener for both versions sees it, becomes an IPv4 address.
    """
    try:
        address = ipaddress.ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return ":".join(f"{int(part, 16):x}" for part in address.exploded.split(":"))


def look_up(host: str) -> str | None:
    """Return the first address of a host name, like Java's `InetAddress.getByName`; None if it has none. Blocks."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    # Java prefers IPv4.
    found.sort(key=lambda info: info[0] != socket.AF_INET)
    return java_address(str(found[0][4][0])) if found else None


class NameLookups:
    """Looks up host names for one event loop."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._threads = _ThreadPerCall()

    async def address_of(self, host: str) -> str | None:
        """Return the address of a host name or of an IP address, in Java's form; None if it has none."""
        address = java_address(host)
        if address is not None:
            return address
        async with self._turns:
            return await asyncio.get_running_loop().run_in_executor(self._threads, look_up, host)


class _ThreadPerCall(concurrent.futures.Executor):
    """Calls each function in a daemon thread; those of other executors are joined when the interpreter ends."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[Any]:
        done: concurrent.futures.Future[Any] = concurrent.futures.Future()
        # From now on nobody can cancel it, so that the thread can always complete it.
        done.set_running_or_notify_cancel()

        def call() -> None:
            try:
                done.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - it is the future's, as with any executor
                done.set_exception(error)

        threading.Thread(target=call, name="refbroker-dns", daemon=True).start()
        return done
