"""The filters that select client quotas."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.errors import InvalidRequestError, KafkaError, UnsupportedVersionError
from kclient.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from refbroker.metadata.quotas import QuotaFilter

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
