"""The pytest plugin behind `--security=sasl_ssl`: brokers accept clients only over TLS and with a login.

That is the broker under test, and each `RefBroker` whose test does not say how it is secured. Clients may do all, since
they log in as a super user; nobody else may do anything. Clients, raw connections (`Wire`), the command line and
other processes are secured without the help of the tests. A test that depends on plaintext is skipped: it is marked
`not_secured("why")`.

Limitations: a broker that a test starts as a process, or whose listeners a test sets, is as the test says.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pytest

import refbroker.testing
from tests.support.security import clients
from tests.support.security.credentials import PASSWORD, USER

_SECURITY = {"tls", "sasl", "acls", "listeners"}
"""The parameters of a RefBroker that say how it is secured."""
_ROOT = Path(__file__).parents[3]


def pytest_configure() -> None:
    """Secure the clients and brokers of this process."""
    clients.secure_clients()
    secure_brokers()


def pytest_report_header() -> str:
    """Say that the run is secured."""
    return "security: SASL_SSL, and an authorizer"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what depends on plaintext."""
    for item in items:
        if (mark := item.get_closest_marker("not_secured")) is not None:
            item.add_marker(pytest.mark.skip(reason=f"not secured: {mark.args[0]}"))


@pytest.fixture(scope="session", autouse=True)
def secured_processes() -> Iterator[None]:
    """Let Python import `processes/sitecustomize.py` in processes that tests start."""
    with pytest.MonkeyPatch.context() as patch:
        for folder in (_ROOT, Path(__file__).with_name("processes")):
            patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        yield


def secure_brokers() -> None:
    """Let each RefBroker from now on require TLS and a login, unless its test says how it is secured."""
    kind = refbroker.testing.RefBroker
    create, start, close = kind.__init__, kind.start, kind.close
    secured: WeakSet[refbroker.testing.RefBroker] = WeakSet()

    def made(self: Any, **given: Any) -> None:
        if not _SECURITY & {*given, *(given.get("settings") or {})}:
            given |= {"tls": True, "sasl": {USER: PASSWORD}, "acls": True}
            secured.add(self)
        create(self, **given)

    def started(self: Any) -> Any:
        start(self)
        options = self.client_options
        servers = options.pop("bootstrap_servers")
        clients.register(servers, options) if self in secured else clients.forget(servers)
        return self

    def closed(self: Any) -> None:
        close(self)
        clients.forget(f":{self.port}")

    kind.__init__, kind.start, kind.close = made, started, closed  # type: ignore[method-assign]
