"""What the tests of groups share: each runs with both group protocols, where the broker speaks them."""

from __future__ import annotations

from functools import lru_cache

import pytest

from kclient.consumer import Consumer
from kclient.errors import UnsupportedVersionError


@lru_cache
def _speaks_consumer_protocol(bootstrap_servers: str) -> bool:
    with Consumer("t", bootstrap_servers=bootstrap_servers, group_id="asks", group_protocol="consumer") as consumer:
        try:
            while consumer.health().group_state in ("unsubscribed", "joining"):
                consumer.poll(0.05)
        except UnsupportedVersionError:
            return False
    return True


@pytest.fixture(params=["classic", "consumer"])
def group_protocol(request: pytest.FixtureRequest, bootstrap_servers: str) -> str:
    """How the members of the test's group agree."""
    protocol = str(request.param)
    if protocol == "consumer" and not _speaks_consumer_protocol(bootstrap_servers):
        pytest.skip("the broker does not speak the consumer protocol")
    return protocol
