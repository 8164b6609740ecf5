"""IP addresses in Java's form, and lookups of host names that block nothing."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

from refbroker.runtime import addresses
from refbroker.runtime.addresses import AT_ONCE, NameLookups, java_address, look_up
from tests.support.waiting import until


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("[2001:DB8::10]", "2001:db8:0:0:0:0:0:10"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("localhost", None),
        ("300.1.1.1", None),
        ("", None),
    ],
)
def test_an_address_is_written_as_java_writes_it(text: str, written: str | None) -> None:
    assert java_address(text) == written


def found(*hosts: str) -> list[Any]:
    families = [socket.AF_INET6 if ":" in host else socket.AF_INET for host in hosts]
    return [(family, 1, 6, "", (host, 0)) for family, host in zip(families, hosts, strict=True)]


def test_ipv4_comes_first_and_failures_are_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found("::1", "10.0.0.2", "10.0.0.1"))
    assert look_up("both") == "10.0.0.2"
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found("::1"))
    assert look_up("six") == "0:0:0:0:0:0:0:1"

    def fail(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert look_up("none") is None


@pytest.mark.parametrize("host", ["a" * 64, "a..b", "\udc80", "x" * 5000], ids=["label", "empty", "surrogate", "long"])
def test_a_text_that_no_host_can_have_has_no_address(host: str) -> None:
    assert look_up(host) is None


async def test_a_lookup_that_hangs_blocks_neither_the_loop_nor_others(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = threading.Event()
    asked: list[str] = []

    def hang(host: str) -> str:
        asked.append(host)
        answer.wait()
        return host.upper()

    monkeypatch.setattr(addresses, "look_up", hang)
    lookups = NameLookups()
    hosts = [f"host-{number}" for number in range(AT_ONCE + 2)]
    tasks = [asyncio.create_task(lookups.address_of(host)) for host in hosts]
    await until(lambda: len(asked) == AT_ONCE)
    # An address needs no thread.
    assert await lookups.address_of("::1") == "0:0:0:0:0:0:0:1"
    tasks[0].cancel()
    await asyncio.wait([tasks[0]])
    await until(lambda: len(asked) == AT_ONCE + 1)
    answer.set()
    assert await asyncio.gather(*tasks[1:]) == [host.upper() for host in hosts[1:]]
