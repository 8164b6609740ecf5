"""Producers of partitions: who is asked, which transactions hang, and the marker that ends one."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kclient.admin.producers import (
    HangingTransaction,
    ProducerState,
    abort_transaction,
    describe_producers,
    find_hanging_transactions,
)
from kclient.errors import (
    AdminError,
    ClusterAuthorizationError,
    ConfigError,
    IllegalStateError,
    InvalidProducerEpochError,
    NotLeaderOrFollowerError,
    TopicAuthorizationError,
    TransactionalIdNotFoundError,
    TransactionCoordinatorFencedError,
    UnknownTopicOrPartitionError,
)
from kclient.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from kclient.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kclient.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from kclient.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kclient.protocol.messages.metadata import MetadataRequest
from kclient.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from kclient.types import TopicPartition
from tests.kclient.admin.scripted import Answer, Cluster, ScriptedCore, finished, metadata, nodes_asked, soon

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOW = int(time.time() * 1000)
OLD = NOW - 3_600_000
Producer = DescribeProducersResponse.ProducerState


class Partitions(Cluster):
    """Topics of two partitions that broker 1 leads.

    Parameters:
        producers: of each partition.
        errors: the codes that each partition's answers have first.
        ids: which transactional id has a producer id.
        open_in: what the transactional ids that are known have in an open transaction.
    """

    def __init__(
        self,
        producers: dict[TopicPartition, list[Any]] | None = None,
        *,
        errors: dict[TopicPartition, list[int]] | None = None,
        ids: dict[int, str] | None = None,
        open_in: dict[str, list[TopicPartition]] | None = None,
        topics: tuple[str, ...] = ("t",),
        **handlers: Any,
    ) -> None:
        super().__init__(
            Metadata=lambda node, request: metadata(topics),
            **{
                "DescribeProducers": self.producers,
                "ListTransactions": self.listed,
                "DescribeTransactions": self.transactions,
                "WriteTxnMarkers": self.marked,
                **handlers,
            },
        )
        self._producers = producers or {}
        self._errors = errors or {}
        self._ids = ids or {}
        self._open_in = open_in or {}

    def producers(self, node: int, request: DescribeProducersRequest) -> Answer:
        kind = DescribeProducersResponse
        return kind(
            topics=[
                kind.TopicResponse(topic.name, [self._partition(topic.name, each) for each in topic.partition_indexes])
                for topic in request.topics
            ]
        )

    def _partition(self, topic: str, number: int) -> Any:
        key = TopicPartition(topic, number)
        codes = self._errors.get(key)
        return DescribeProducersResponse.PartitionResponse(
            partition_index=number,
            error_code=codes.pop(0) if codes else 0,
            active_producers=self._producers.get(key, []),
        )

    def listed(self, node: int, request: ListTransactionsRequest) -> Answer:
        kind = ListTransactionsResponse
        found = [(name, each) for each, name in self._ids.items() if each in request.producer_id_filters and node == 1]
        return kind(transaction_states=[kind.TransactionState(name, each, "Ongoing") for name, each in found])

    def transactions(self, node: int, request: DescribeTransactionsRequest) -> Answer:
        kind = DescribeTransactionsResponse
        states = []
        for name in request.transactional_ids:
            keys = self._open_in.get(name)
            topics = [kind.TopicData(topic, [number]) for topic, number in keys or ()]
            code = TransactionalIdNotFoundError.code if keys is None else 0
            states.append(kind.TransactionState(error_code=code, transactional_id=name, topics=topics))
        return kind(transaction_states=states)

    def marked(self, node: int, request: WriteTxnMarkersRequest) -> Answer:
        (marker,) = request.markers
        (topic,) = marker.topics
        (number,) = topic.partition_indexes
        codes = self._errors.get(TopicPartition(topic.name, number))
        kind = WriteTxnMarkersResponse
        result = kind.WritableTxnMarkerPartitionResult(number, codes.pop(0) if codes else 0)
        topics = [kind.WritableTxnMarkerTopicResult(topic.name, [result])]
        return kind(markers=[kind.WritableTxnMarkerResult(marker.producer_id, topics)])


def over(*arguments: Any, **named: Any) -> ScriptedCore:
    """Brokers that describe topics in the older way."""
    return ScriptedCore(Partitions(*arguments, **named), {DescribeTopicPartitionsRequest: -1})


def opened(producer_id: int, start: int = 5, timestamp: int = OLD, coordinator_epoch: int = -1) -> Any:
    return Producer(producer_id, 3, 9, timestamp, coordinator_epoch, start)


def find(core: ScriptedCore, **arguments: Any) -> list[HangingTransaction]:
    wanted = {"topics": None, "broker_id": None, "max_transaction_timeout": 900.0, **arguments}
    found: list[HangingTransaction] = finished(find_hanging_transactions(core, **wanted, deadline=soon()))
    return found


def abort(core: ScriptedCore, where: Any = T0, **named: Any) -> None:
    wanted = dict.fromkeys(("start_offset", "producer_id", "producer_epoch", "coordinator_epoch")) | named
    finished(abort_transaction(core, where, **wanted, deadline=soon("abort_transaction")))


def markers(core: ScriptedCore) -> list[Any]:
    return [asked.markers[0] for _, asked, _ in core.asked if isinstance(asked, WriteTxnMarkersRequest)]


def test_what_a_producer_does_not_have_is_none() -> None:
    producers = [opened(7, coordinator_epoch=2), Producer(8, 0, -1, NOW, -1, -1)]
    found = finished(describe_producers(over({T0: producers}), [T0, T1], None, soon()))
    assert found == {T0: (ProducerState(7, 3, 9, OLD, 2, 5), ProducerState(8, 0, None, NOW, None, None)), T1: ()}


def test_a_leader_that_moves_is_looked_for_again() -> None:
    core = over(errors={T0: [NotLeaderOrFollowerError.code]})
    assert finished(describe_producers(core, [T0], None, soon())) == {T0: ()}
    assert nodes_asked(core, DescribeProducersRequest) == [1, 1]
    assert len(nodes_asked(core, MetadataRequest)) == 2


def test_a_broker_that_was_named_is_asked_once() -> None:
    core = over(errors={T0: [NotLeaderOrFollowerError.code]})
    with pytest.raises(AdminError) as caught:
        finished(describe_producers(core, [T0, T1], 2, soon()))
    assert caught.value.results == {T1: ()}
    assert isinstance(caught.value.errors[T0], NotLeaderOrFollowerError)
    assert caught.value.errors[T0].broker == "2"
    assert nodes_asked(core, DescribeProducersRequest) == [2]


@pytest.mark.parametrize(
    ("ids", "open_in", "expected"),
    [
        ({}, {}, None),
        ({7: "a"}, {}, "a"),
        ({7: "a"}, {"a": []}, "a"),
        ({7: "a"}, {"a": [T1]}, "a"),
    ],
    ids=["no id", "a forgotten id", "nothing open", "open elsewhere"],
)
def test_a_transaction_hangs_if_no_coordinator_has_the_partition(
    ids: dict[int, str], open_in: dict[str, list[TopicPartition]], expected: str | None
) -> None:
    core = over({T0: [opened(7)]}, ids=ids, open_in=open_in)
    assert find(core) == [HangingTransaction(T0, 5, ProducerState(7, 3, 9, OLD, None, 5), expected)]


@pytest.mark.parametrize(
    "producer", [opened(7), opened(8, timestamp=NOW - 60_000), opened(8, start=-1)], ids=["known", "young", "ended"]
)
def test_what_will_be_ended_or_is_does_not_hang(producer: Any) -> None:
    core = over({T0: [producer]}, ids={7: "a"}, open_in={"a": [T0]})
    assert find(core) == []


def test_coordinators_are_asked_only_about_what_may_hang() -> None:
    core = over({T0: [opened(7, start=-1)]})
    assert find(core) == []
    assert nodes_asked(core, ListTransactionsRequest) == []
    core = over({T0: [opened(7), opened(8)], T1: [opened(7)]}, ids={7: "a"}, open_in={"a": [T0]})
    assert {(each.partition, each.producer.producer_id) for each in find(core)} == {(T0, 8), (T1, 7)}
    (asked, _) = [asked for _, asked, _ in core.asked if isinstance(asked, ListTransactionsRequest)]
    assert sorted(asked.producer_id_filters) == [7, 8]


def test_an_age_may_be_given_for_what_counts_as_old() -> None:
    core = over({T0: [opened(7, timestamp=NOW - 60_000)]})
    assert len(find(core, max_transaction_timeout=30)) == 1
    assert find(core, max_transaction_timeout=7_200) == []


def test_a_topic_that_goes_during_a_search_of_all_is_omitted() -> None:
    gone = [UnknownTopicOrPartitionError.code]
    core = over({T1: [opened(7)]}, errors={T0: list(gone)})
    assert [each.partition for each in find(core)] == [T1]
    with pytest.raises(AdminError):
        find(over({T1: [opened(7)]}, errors={T0: list(gone)}), topics=["t"])
    with pytest.raises(TopicAuthorizationError):
        find(over(errors={T0: [TopicAuthorizationError.code]}))


def test_a_search_is_limited_to_the_replicas_of_a_broker() -> None:
    core = over({T0: [opened(7)]})
    assert find(core, broker_id=2) == []
    assert nodes_asked(core, DescribeProducersRequest) == []
    assert len(find(core, broker_id=1)) == 1
    assert nodes_asked(core, DescribeProducersRequest) == [1]


def test_no_transaction_is_called_hanging_while_its_coordinator_does_not_answer() -> None:
    def refused(node: int, request: ListTransactionsRequest) -> Answer:
        return ListTransactionsResponse(error_code=-1)

    with pytest.raises(AdminError):
        find(over({T0: [opened(7)]}, ListTransactions=refused))


@pytest.mark.parametrize(("known", "written"), [(-1, 0), (4, 4)])
def test_a_transaction_is_aborted_with_what_describe_producers_returns(known: int, written: int) -> None:
    core = over({T0: [opened(6, start=2), opened(7, coordinator_epoch=known)]})
    abort(core, start_offset=5)
    (marker,) = markers(core)
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (7, 3, written)
    assert marker.transaction_result is False
    assert (marker.topics[0].name, marker.topics[0].partition_indexes) == ("t", [0])


def test_a_transaction_is_aborted_by_producer_id_and_epoch() -> None:
    core = over()
    abort(core, producer_id=7, producer_epoch=3)
    abort(core, ("t", 0), producer_id=7, producer_epoch=3, coordinator_epoch=2)
    assert [marker.coordinator_epoch for marker in markers(core)] == [0, 2]
    assert nodes_asked(core, DescribeProducersRequest) == []


@pytest.mark.parametrize(
    "named",
    [{}, {"producer_id": 7}, {"producer_epoch": 7}, {"start_offset": 5, "producer_id": 7}],
    ids=["nothing", "no epoch", "no id", "both ways"],
)
def test_a_transaction_is_named_in_one_way(named: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="either start_offset, or producer_id and producer_epoch"):
        abort(over(), **named)


@pytest.mark.parametrize(
    ("producers", "says"),
    [([], "no open transaction starts at offset 4, and no transaction is open there"),
     ([opened(7, start=9), opened(8)], "starts at offset 4; open ones start at 5, 9")],
    ids=["none open", "others open"],
)  # fmt: skip
def test_an_offset_at_which_nothing_begins_is_reported(producers: list[Any], says: str) -> None:
    core = over({T0: producers})
    with pytest.raises(IllegalStateError, match=says):
        abort(core, start_offset=4)
    assert markers(core) == []


@pytest.mark.parametrize("code", [NotLeaderOrFollowerError.code, UnknownTopicOrPartitionError.code])
def test_a_marker_follows_a_leader_that_moves(code: int) -> None:
    core = over(errors={T0: [code]})
    abort(core, producer_id=7, producer_epoch=3)
    assert len(markers(core)) == 2


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (InvalidProducerEpochError, "newer epoch in the partition"),
        (TransactionCoordinatorFencedError, "a higher coordinator epoch; describe_producers tells which"),
        (ClusterAuthorizationError, "CLUSTER_AUTHORIZATION_FAILED"),
    ],
)
def test_a_refused_marker_says_why(error: type[Any], says: str) -> None:
    with pytest.raises(error, match=says) as caught:
        abort(over(errors={T0: [error.code]}), producer_id=7, producer_epoch=3)
    assert (caught.value.topic, caught.value.partition, caught.value.api) == ("t", 0, "WriteTxnMarkers")
