"""A broker in this process, whichever broker the rest of the suite runs against."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from refbroker.testing import RefBroker


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "integration/broker" in item.path.as_posix():
            item.add_marker(pytest.mark.refbroker_only)


@pytest.fixture
def kafka() -> Iterator[RefBroker]:
    with RefBroker() as running:
        yield running
