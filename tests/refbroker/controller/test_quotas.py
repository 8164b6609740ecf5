"""Changes of client quotas, one by one, and those that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.errors import InvalidRequestError, KafkaError, PolicyViolationError
from kclient.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from refbroker.controller import quotas
from refbroker.controller.quotas import plan_changes
from refbroker.metadata.image import ClusterImage

Names = dict[str, str | None]


def entry(entity: Names, **changes: float | None) -> AlterClientQuotasRequest.EntryData:
    request = AlterClientQuotasRequest
    return request.EntryData(
        entity=[request.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[request.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in changes.items()],
    )


def changed(image: ClusterImage, *entries: AlterClientQuotasRequest.EntryData) -> list[KafkaError | None]:
    records, results = plan_changes(image, entries)
    for record in records:
        image.replay(record)
    return list(results.values())


def test_quotas_are_set_changed_and_removed_one_by_one() -> None:
    image = ClusterImage()
    both: Names = {"user": "anne", "client-id": None}
    assert changed(image, entry(both, producer_byte_rate=5, request_percentage=0.5)) == [None]
    assert changed(image, entry(both, producer_byte_rate=7, consumer_byte_rate=None)) == [None]
    assert {key: record.value for (_, key), record in image.quotas.items()} == {
        "producer_byte_rate": 7,
        "request_percentage": 0.5,
    }
    assert plan_changes(image, [entry(both, producer_byte_rate=7)])[0] == []
    changed(image, entry(both, producer_byte_rate=None, request_percentage=None))
    assert image.quotas == {}


@pytest.mark.parametrize(
    ("entity", "changes", "message"),
    [
        ({}, {}, "Invalid empty client quota entity"),
        ({"group": "g"}, {}, "Unhandled client quota entity type: group"),
        ({"user": ""}, {}, "Empty user not supported"),
        ({"user": "u", "ip": "127.0.0.1"}, {}, "Invalid quota entity combination"),
        ({"ip": "300.1.1.1"}, {}, "300.1.1.1 is not a valid IP"),
        ({"user": "u"}, {"bytes": 1}, "Invalid configuration key bytes"),
        ({"ip": "::1"}, {"producer_byte_rate": 1}, "Invalid configuration key producer_byte_rate"),
        ({"user": "u"}, {"consumer_byte_rate": 0}, "must be greater than 0"),
        ({"user": "u"}, {"consumer_byte_rate": 1.5}, "cannot be a fractional value"),
        ({"user": "u"}, {"producer_byte_rate": 2.0**64}, "too large for a LONG"),
        ({"ip": None}, {"connection_creation_rate": 2.0**31}, "too large for a INT"),
    ],
)
def test_a_change_that_kafka_refuses_is_refused_alone(entity: Names, changes: dict[str, Any], message: str) -> None:
    image = ClusterImage()
    refused, made = changed(image, entry(entity, **changes), entry({"client-id": "app"}, producer_byte_rate=1))
    assert isinstance(refused, InvalidRequestError)
    assert message in refused.message
    assert made is None
    assert len(image.quotas) == 1


def test_an_entity_or_a_key_that_comes_twice_is_refused() -> None:
    image = ClusterImage()
    once = entry({"user": "u"}, producer_byte_rate=1)
    (error,) = changed(image, once, once)
    assert error is not None
    assert "Ignoring duplicate entity" in error.message


def test_a_request_has_a_limit_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "MOST_RECORDS", 1)
    with pytest.raises(PolicyViolationError):
        plan_changes(ClusterImage(), [entry({"user": "u"}, producer_byte_rate=1, consumer_byte_rate=1)])
