"""The pytest fixtures `refbroker` (a fresh broker for each test) and `refbroker_session` (one for the whole run).

`@pytest.mark.refbroker(num_partitions=3)` gives the test's broker settings; a fixture `refbroker_options` of one's own
gives them to all tests of a module or folder. The broker itself is imported when the first test asks for one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from refbroker.testing import RefBroker


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line("markers", "refbroker(**settings): settings of the test's own broker, as for RefBroker")


@pytest.fixture
def refbroker_options() -> dict[str, Any]:
    """What `refbroker` gives to RefBroker; a fixture of this name has it otherwise. A test's mark goes first."""
    return {}


@pytest.fixture(name="refbroker")
def refbroker_fixture(request: pytest.FixtureRequest, refbroker_options: dict[str, Any]) -> Iterator[RefBroker]:
    """A broker of the test's own, on a free port and a temporary directory."""
    from refbroker.testing import RefBroker

    mark = request.node.get_closest_marker("refbroker")
    with RefBroker(**{**refbroker_options, **(mark.kwargs if mark is not None else {})}) as broker:
        yield broker


@pytest.fixture(scope="session")
def refbroker_session() -> Iterator[RefBroker]:
    """One broker for all tests that ask for it; they must not mind each other's topics."""
    from refbroker.testing import RefBroker

    with RefBroker() as broker:
        yield broker
