"""Changes of client quotas that are refused, one by one, and the filters that select quotas."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.errors import InvalidRequestError, KafkaError, PolicyViolationError, UnsupportedVersionError
from kclient.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from kclient.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from refbroker.metadata import quotas
from refbroker.metadata.image import ClusterImage
from refbroker.metadata.quotas import QuotaFilter, plan_changes

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


ANNE = frozenset({("user", "anne")})
DEFAULT = frozenset({("user", None)})
BOTH = frozenset({("user", "anne"), ("client-id", "app")})


def selected(*components: tuple[str, int, str | None], strict: bool = False) -> list[Any]:
    request = DescribeClientQuotasRequest(
        components=[
            DescribeClientQuotasRequest.ComponentData(entity_type=kind, match_type=how, match=name)
            for kind, how, name in components
        ],
        strict=strict,
    )
    wanted = QuotaFilter.from_request(request)
    return [entity for entity in (ANNE, DEFAULT, BOTH) if wanted.matches(entity)]


def test_filters_select_by_name_default_and_type() -> None:
    assert selected() == [ANNE, DEFAULT, BOTH]
    assert selected(("user", 0, "anne")) == [ANNE, BOTH]
    assert selected(("user", 0, "anne"), strict=True) == [ANNE]
    assert selected(("user", 1, None)) == [DEFAULT]
    assert selected(("user", 2, None), ("client-id", 2, None)) == [BOTH]


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ([("", 0, "x")], InvalidRequestError),
        ([("user", 0, "x"), ("user", 1, None)], InvalidRequestError),
        ([("group", 0, "x")], UnsupportedVersionError),
        ([("user", 0, None)], InvalidRequestError),
        ([("user", 1, "x")], InvalidRequestError),
        ([("user", 2, "x")], InvalidRequestError),
        ([("user", 3, None)], InvalidRequestError),
        ([("user", 2, None), ("ip", 2, None)], InvalidRequestError),
    ],
)
def test_a_filter_that_contradicts_itself_is_refused(components: list[Any], error: type[KafkaError]) -> None:
    with pytest.raises(error):
        selected(*components)
