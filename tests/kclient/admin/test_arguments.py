"""Arguments of the wrong type: each call says so in its caller, before a broker is asked."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from kclient.admin import Admin, ConfigResource, NewPartitions, NewTopic, OffsetReset
from kclient.admin.arguments import duration, mapping, moment, number, partition, partitions, several, text
from kclient.net.deadline import Deadline
from kclient.types import TopicPartition
from tests.kclient.admin.scripted import ScriptedCore, soon

T0 = TopicPartition("t", 0)
ORDERS = ConfigResource.topic("orders")


class Silent(ScriptedCore):
    """A cluster that may not be asked."""

    def __init__(self) -> None:
        super().__init__(lambda node, request: pytest.fail(f"{request} was sent"))

    def deadline(self, name: str, timeout: float | None) -> Deadline:
        return soon(name)

    def drop(self, face: str) -> None:
        pass


@pytest.fixture
def admin() -> Any:
    made = Admin.__new__(Admin)
    made._core = Silent()
    return made


WRONG_CALLS: list[tuple[Callable[[Any], object], str]] = [
    (lambda admin: admin.create_topics(["t"]), "create_topics takes a NewTopic, not 't'"),
    (lambda admin: admin.create_topics("t"), "create_topics takes a NewTopic or several, not 't'"),
    (lambda admin: admin.delete_topics([None]), "delete_topics takes a str, not None"),
    (lambda admin: admin.delete_topics(3), "delete_topics takes a str or several, not 3"),
    (lambda admin: admin.describe_topics([T0]), "describe_topics takes a str, not TopicPartition"),
    (lambda admin: admin.create_partitions({"t": 50}), "create_partitions takes a NewPartitions, not 50"),
    (lambda admin: admin.create_partitions({3: NewPartitions(5)}), "create_partitions takes a str, not 3"),
    (lambda admin: admin.create_partitions(["t"]), r"create_partitions takes a mapping, not \['t'\]"),
    (lambda admin: admin.describe_configs("orders"), "describe_configs takes a ConfigResource or several, not 'ord"),
    (lambda admin: admin.describe_configs(["orders"]), "describe_configs takes a ConfigResource, not 'orders'"),
    (
        lambda admin: admin.incremental_alter_configs({"orders": []}),
        "incremental_alter_configs takes a ConfigResource, not 'orders'",
    ),
    (
        lambda admin: admin.incremental_alter_configs({ORDERS: ["a"]}),
        "incremental_alter_configs takes an AlterConfig, not 'a'",
    ),
    (lambda admin: admin.list_offsets({T0: "latest"}), "list_offsets takes an int, not 'latest'"),
    (lambda admin: admin.list_offsets({"t": -1}), r"list_offsets takes a TopicPartition\(.*, not 't'"),
    (lambda admin: admin.delete_records({T0: None}), "delete_records takes an int, not None"),
    (lambda admin: admin.list_groups(states=["Stable"]), r"list_groups\(states=\) takes a GroupState, not 'St"),
    (lambda admin: admin.list_groups(types="Classic"), r"list_groups\(types=\) takes a GroupType or several"),
    (lambda admin: admin.describe_groups([1]), "describe_groups takes a str, not 1"),
    (lambda admin: admin.delete_groups(None), "delete_groups takes a str or several, not None"),
    (lambda admin: admin.group_lag(1), "group_lag takes a str or several, not 1"),
    (lambda admin: admin.remove_group_members(1, everyone=True), "remove_group_members takes a str, not 1"),
    (lambda admin: admin.remove_group_members("g", member_ids=[1]), r"remove_group_members\(member_ids=\) takes a"),
    (lambda admin: admin.list_group_offsets({"g": T0}), r"list_group_offsets takes a TopicPartition\(.*, not 't'"),
    (lambda admin: admin.alter_group_offsets("g", {T0: "4"}), "alter_group_offsets takes an OffsetAndMetadata"),
    (lambda admin: admin.alter_group_offsets(["g"], {T0: 4}), r"alter_group_offsets takes a str, not \['g'\]"),
    (lambda admin: admin.delete_group_offsets("g", ["t"]), r"delete_group_offsets takes a TopicPartition\(.*'t'"),
    (lambda admin: admin.reset_group_offsets("g", "earliest"), "reset_group_offsets takes an OffsetReset, not 'e"),
    (
        lambda admin: admin.reset_group_offsets("g", OffsetReset.latest(), partitions=[("t", "0")]),
        r"reset_group_offsets takes a TopicPartition\(.*, not \('t', '0'\)",
    ),
    (
        lambda admin: admin.list_transactions(states="Ongoing"),
        r"list_transactions\(states=\) takes a TransactionState or several",
    ),
    (lambda admin: admin.list_transactions(producer_ids=["7"]), r"\(producer_ids=\) takes an int, not '7'"),
    (lambda admin: admin.list_transactions(min_duration="1h"), r"\(min_duration=\) takes seconds, not '1h'"),
    (lambda admin: admin.list_transactions(transactional_id_pattern=b"a"), r"_pattern=\) takes a str, not b'a'"),
    (lambda admin: admin.describe_transactions([7]), "describe_transactions takes a str, not 7"),
    (lambda admin: admin.complete_transaction("etl-1"), "complete_transaction takes a PreparedTransaction, not"),
    (lambda admin: admin.fence_producers(None), "fence_producers takes a str or several, not None"),
    (lambda admin: admin.describe_producers(T0), r"describe_producers takes a TopicPartition\(.*, not 't'"),
    (lambda admin: admin.describe_producers([T0], broker_id="1"), r"\(broker_id=\) takes an int, not '1'"),
    (lambda admin: admin.find_hanging_transactions(topics=[T0]), r"\(topics=\) takes a str, not TopicPartition"),
    (lambda admin: admin.find_hanging_transactions(max_transaction_timeout="15"), "takes seconds, not '15'"),
    (
        lambda admin: admin.abort_transaction("t", start_offset=5),
        r"abort_transaction takes a TopicPartition\(",
    ),
    (
        lambda admin: admin.abort_transaction(T0, start_offset="5"),
        r"\(start_offset=\) takes an int, not '5'",
    ),
    (
        lambda admin: admin.abort_transaction(T0, producer_id=7, producer_epoch=3.0),
        r"\(producer_epoch=\) takes an int, not 3\.0",
    ),
    (lambda admin: NewTopic("t", "6"), r"NewTopic\(num_partitions=\) takes an int, not '6'"),  # type: ignore[arg-type]
    (lambda admin: NewTopic("t", configs=[("a", 1)]), r"NewTopic\(configs=\) takes a Mapping"),  # type: ignore[arg-type]
    (lambda admin: NewPartitions(True), r"NewPartitions\(total_count=\) takes an int, not True"),
    (lambda admin: OffsetReset.shift_by("3"), r"OffsetReset\.shift_by takes an int, not '3'"),  # type: ignore[arg-type]
    (lambda admin: OffsetReset.to_time("now"), r"OffsetReset\.to_time takes a datetime, or milliseconds .*, not 'now'"),  # type: ignore[arg-type]
    (lambda admin: OffsetReset.by_duration("PT1H"), r"OffsetReset\.by_duration takes seconds, not 'PT1H'"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "says"), WRONG_CALLS, ids=[says for _, says in WRONG_CALLS])
def test_a_wrong_argument_is_named_in_the_caller(admin: Any, call: Callable[[Any], object], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        call(admin)


def test_what_fits_is_taken_in_the_forms_that_it_has() -> None:
    assert several("t", str, "call") == ["t"]
    assert several(ORDERS, ConfigResource, "call") == [ORDERS]
    assert several(NewTopic("t"), NewTopic, "call") == [NewTopic("t")]
    assert several(iter("tu"), str, "call") == ["t", "u"]
    assert partition(("t", 0), "call") == T0
    assert partitions({T0: 1}, "call") == [T0]
    assert mapping({("t", 0): 4}, partition, number, "call") == {T0: 4}
    assert duration(3, "call") == 3.0
    assert moment(3, "call") == 3
    assert moment(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "call") == 1000
    assert text("", "call") == ""


def test_one_partition_is_not_read_as_two() -> None:
    with pytest.raises(TypeError, match=r"call takes a TopicPartition\(topic, partition\), not 't'"):
        partitions(T0, "call")
