"""The limits of addresses that settings and quotas name, also by host names."""

from __future__ import annotations

import asyncio

import pytest

from kclient.protocol.messages.records.metadata_log import ClientQuotaRecord
from refbroker.config import BrokerConfig
from refbroker.metadata.image import ClusterImage
from refbroker.runtime import addresses
from refbroker.runtime.addresses import NameLookups
from refbroker.server.address_limits import AddressLimits
from tests.support.waiting import until

HOSTS = {"app.test": "10.0.0.7", "six.test": "0:0:0:0:0:0:0:1"}
OVERRIDES = "max.connections.per.ip.overrides"


@pytest.fixture(autouse=True)
def _hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "look_up", HOSTS.get)


@pytest.fixture
def image() -> ClusterImage:
    return ClusterImage()


def set_rate(image: ClusterImage, name: str | None, rate: float | None) -> None:
    entity = [ClientQuotaRecord.EntityData(entity_type="ip", entity_name=name)]
    key = "connection_creation_rate"
    image.replay(ClientQuotaRecord(entity=entity, key=key, value=rate or 0.0, remove=rate is None))


def limits(image: ClusterImage, overrides: str = "") -> AddressLimits:
    settings = {"max.connections.per.ip": "100", OVERRIDES: overrides}
    made = AddressLimits(BrokerConfig(settings), image, NameLookups())
    made.update()
    return made


async def test_addresses_have_their_limits_at_once(image: ClusterImage) -> None:
    set_rate(image, "::1", 5)
    set_rate(image, None, 50)
    found = limits(image, "10.0.0.1:2, ::1:3")
    assert [found.most(address) for address in ("10.0.0.1", "0:0:0:0:0:0:0:1", "10.0.0.2")] == [2, 3, 100]
    assert [found.rate(address) for address in ("0:0:0:0:0:0:0:1", "10.0.0.1")] == [5, 50]


async def test_a_host_name_has_its_limits_once_it_is_known(image: ClusterImage) -> None:
    set_rate(image, "six.test", 5)
    found = limits(image, "app.test:2")
    assert found.most("10.0.0.7") == 100
    assert found.rate("0:0:0:0:0:0:0:1") is None
    await until(lambda: found.most("10.0.0.7") == 2)
    await until(lambda: found.rate("0:0:0:0:0:0:0:1") == 5)
    set_rate(image, "six.test", None)
    set_rate(image, "app.test", 7)
    found.update()
    # The address of app.test is known already.
    assert found.rate("0:0:0:0:0:0:0:1") is None
    assert found.rate("10.0.0.7") == 7


async def test_an_address_outweighs_the_names_that_it_has(image: ClusterImage) -> None:
    set_rate(image, "10.0.0.7", 1)
    set_rate(image, "app.test", 2)
    set_rate(image, "six.test", 3)
    found = limits(image)
    await until(lambda: found.rate("0:0:0:0:0:0:0:1") == 3)
    assert found.rate("10.0.0.7") == 1
    set_rate(image, "10.0.0.7", None)
    found.update()
    assert found.rate("10.0.0.7") == 2


async def test_a_host_name_without_an_address_is_logged_once(
    image: ClusterImage, caplog: pytest.LogCaptureFixture
) -> None:
    found = limits(image, "none.test:2")
    await until(lambda: "none.test" in caplog.text)
    found.update()
    for _ in range(10):
        await asyncio.sleep(0)
    (record,) = caplog.records
    assert record.getMessage() == ("the limits of connections of none.test have no effect: it is not a known host name")


async def test_a_quota_that_is_removed_needs_no_address(image: ClusterImage, caplog: pytest.LogCaptureFixture) -> None:
    set_rate(image, "none.test", 2)
    found = limits(image)
    set_rate(image, "none.test", None)
    found.update()
    found.close()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not caplog.records
