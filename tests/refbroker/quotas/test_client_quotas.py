"""Which quota applies to a client, and who shares it."""

from __future__ import annotations

import pytest

from kclient.errors import ThrottlingQuotaExceededError
from kclient.protocol.messages.records.metadata_log import ClientQuotaRecord
from refbroker.config import BrokerConfig
from refbroker.metadata.image import ClusterImage
from refbroker.quotas.client_quotas import LOOKUP_LIMIT, METER_LIMIT, ClientQuotas, Share
from refbroker.runtime.clock import Clock

NOW = 1_700_000_000_000
ORDER: list[tuple[dict[str, str | None], Share]] = [
    ({"user": "anne", "client-id": "app"}, Share("producer_byte_rate", "anne", "app")),
    ({"user": "anne", "client-id": None}, Share("producer_byte_rate", "anne", "app")),
    ({"user": "anne"}, Share("producer_byte_rate", "anne", None)),
    ({"user": None, "client-id": "app"}, Share("producer_byte_rate", "anne", "app")),
    ({"user": None, "client-id": None}, Share("producer_byte_rate", "anne", "app")),
    ({"user": None}, Share("producer_byte_rate", "anne", None)),
    ({"client-id": "app"}, Share("producer_byte_rate", None, "app")),
    ({"client-id": None}, Share("producer_byte_rate", None, "app")),
]
"""The entities of quotas, the most specific one first, and who shares each (KIP-55)."""


def record(entity: dict[str, str | None], value: float, key: str = "producer_byte_rate") -> ClientQuotaRecord:
    parts = [ClientQuotaRecord.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    return ClientQuotaRecord(entity=parts, key=key, value=value)


class Broker:
    """The quotas of a cluster on a held clock."""

    def __init__(self, *records: ClientQuotaRecord) -> None:
        self.image = ClusterImage()
        self.clock = Clock()
        self.clock.hold(NOW)
        self.quotas = ClientQuotas(self.image, BrokerConfig({}), self.clock)
        self.change(*records)

    def change(self, *records: ClientQuotaRecord) -> None:
        for each in records:
            self.image.replay(each)
        self.quotas.follow(records)

    def produce(self, user: str, client_id: str, size: int) -> int:
        request = self.quotas.of_request(user, client_id)
        request.record_produce(size)
        return request.throttle_ms


@pytest.mark.parametrize("most_specific", range(len(ORDER)))
def test_the_most_specific_quota_applies(most_specific: int) -> None:
    broker = Broker(*(record(entity, 100 + number) for number, (entity, _) in enumerate(ORDER[most_specific:])))
    found = broker.quotas.find("producer_byte_rate", "anne", "app")
    assert found == (ORDER[most_specific][1], 100)


def test_clients_without_a_quota_are_not_limited() -> None:
    broker = Broker(record({"user": "bob"}, 1))
    assert broker.produce("anne", "app", 10**9) == 0
    assert broker.quotas.of_request("anne", "app").fetch_limit() == float("inf")


def test_the_client_ids_of_a_user_share_its_quota() -> None:
    broker = Broker(record({"user": "anne"}, 100))
    assert broker.produce("anne", "one", 1000) == 0
    assert broker.produce("anne", "two", 1000) == 10_000


def test_each_user_has_a_share_of_its_own_of_a_default() -> None:
    broker = Broker(record({"user": None}, 100))
    assert broker.produce("anne", "app", 1000) == 0
    assert broker.produce("bob", "app", 1000) == 0


def test_a_new_limit_applies_to_what_was_used_before() -> None:
    broker = Broker(record({"user": "anne"}, 1000))
    assert broker.produce("anne", "app", 1000) == 0
    broker.change(record({"user": "anne"}, 50))
    assert broker.produce("anne", "app", 0) == 10_000


def test_without_quotas_nothing_is_active() -> None:
    broker = Broker(record({"user": "anne"}, 1000))
    assert broker.quotas.is_active
    gone = record({"user": "anne"}, 0)
    gone.remove = True
    broker.change(gone)
    assert not broker.quotas.is_active


def test_a_fetch_over_the_quota_is_empty_and_uses_nothing() -> None:
    broker = Broker(record({"user": "anne"}, 100, "consumer_byte_rate"))
    assert broker.quotas.of_request("anne", "app").fetch_limit() == 1000
    assert not broker.quotas.of_request("anne", "app").record_fetch(1000)
    over = broker.quotas.of_request("anne", "app")
    assert over.record_fetch(100)
    assert over.throttle_ms == 1000
    broker.clock.step(1000)
    assert not broker.quotas.of_request("anne", "app").record_fetch(0)


def test_strict_mutations_are_refused_while_tokens_are_owed() -> None:
    broker = Broker(record({"user": "anne"}, 1, "controller_mutation_rate"))
    broker.quotas.of_request("anne", "").record_mutations(11 + 5, strict=True)
    refused = broker.quotas.of_request("anne", "")
    with pytest.raises(ThrottlingQuotaExceededError):
        refused.record_mutations(1, strict=True)
    assert refused.throttle_ms == 5000
    permissive = broker.quotas.of_request("anne", "")
    permissive.record_mutations(1, strict=False)
    assert permissive.throttle_ms == 6000


def test_meters_of_clients_that_are_gone_are_dropped() -> None:
    broker = Broker(record({"client-id": None}, 100))
    for number in range(1000):
        broker.produce("anne", f"app-{number}", 1)
    broker.clock.step(2 * 3_600_000)
    broker.produce("anne", "last", 1)
    assert len(broker.quotas._meters) == 1


def test_the_names_of_clients_do_not_fill_memory() -> None:
    broker = Broker(record({"user": "bob"}, 1))
    for number in range(2 * LOOKUP_LIMIT):
        broker.produce("anne", f"app-{number}", 1)
    assert len(broker.quotas._found) <= LOOKUP_LIMIT
    broker.change(record({"client-id": "c" * 30_000}, 100))
    assert broker.produce("anne", "c" * 30_000, 2000) == 20_000 - 10_000
    assert all(len(client_id or "") < 1000 for _, _, client_id in broker.quotas._found)


def test_many_meters_are_kept_for_a_window_only() -> None:
    broker = Broker(record({"client-id": None}, 100), record({"client-id": None}, 1, "controller_mutation_rate"))
    debtor = broker.quotas.of_request("anne", "debtor")
    debtor.record_mutations(100, strict=False)
    for number in range(METER_LIMIT):
        broker.produce("anne", f"app-{number}", 1)
    broker.clock.step(11_000)
    broker.produce("anne", "last", 1)
    assert {share.client_id for share in broker.quotas._meters} == {"debtor", "last"}
    assert broker.produce("anne", "app-1", 1000) == 0
