"""Transactional ids over coordinators that move, load, are old, or leave something out."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.admin.transactions import (
    FencedProducer,
    TransactionState,
    describe_transactions,
    fence_producers,
    list_transactions,
)
from kclient.errors import (
    AdminError,
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    InvalidTxnTimeoutError,
    TransactionalIdNotFoundError,
    UnsupportedVersionError,
)
from kclient.net.coordinator import TRANSACTION
from kclient.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest
from kclient.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kclient.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kclient.types import TopicPartition
from tests.kclient.admin.scripted import Answer, Cluster, ScriptedCore, finished, nodes_asked, soon

Listed = ListTransactionsResponse.TransactionState
Described = DescribeTransactionsResponse.TransactionState


def listing(core: ScriptedCore, **filters: Any) -> Any:
    wanted = {"states": (), "producer_ids": (), "min_duration": None, "transactional_id_pattern": None, **filters}
    return finished(list_transactions(core, **wanted, deadline=soon("list_transactions")))


def described(node: int, request: DescribeTransactionsRequest) -> Answer:
    return DescribeTransactionsResponse(
        transaction_states=[
            Described(transactional_id=each, transaction_state="Ongoing", transaction_start_time_ms=-1)
            for each in request.transactional_ids
        ]
    )


def test_the_list_has_the_ids_of_all_brokers_and_the_errors_of_those_that_failed() -> None:
    def listed(node: int, request: ListTransactionsRequest) -> Answer:
        if node == 2:
            return ListTransactionsResponse(error_code=-1)
        return ListTransactionsResponse(
            transaction_states=[Listed("b", 7, "Ongoing"), Listed("a", 8, "SomethingOfALaterVersion")]
        )

    core = ScriptedCore(Cluster(ListTransactions=listed))
    with pytest.raises(AdminError) as caught:
        listing(core)
    assert [(each.transactional_id, each.producer_id, each.state) for each in caught.value.results.values()] == [
        ("a", 8, TransactionState.UNKNOWN),
        ("b", 7, TransactionState.ONGOING),
    ]
    assert list(caught.value.errors) == [2]


def test_a_broker_that_still_loads_is_asked_again() -> None:
    answers = [CoordinatorLoadInProgressError.code, 0, 0]
    core = ScriptedCore(Cluster(ListTransactions=lambda *_: ListTransactionsResponse(error_code=answers.pop(0))))
    assert listing(core) == {}
    assert nodes_asked(core, ListTransactionsRequest) == [1, 2, 1]


@pytest.mark.parametrize(
    ("filters", "first"), [({"min_duration": 1.5}, 1), ({"transactional_id_pattern": "a.*"}, 2), ({}, 0)]
)
def test_a_filter_needs_the_version_that_brought_it(filters: dict[str, Any], first: int) -> None:
    core = ScriptedCore(
        Cluster(ListTransactions=lambda *_: ListTransactionsResponse()), {ListTransactionsRequest: first}
    )
    listing(core, states=[TransactionState.PREPARE_COMMIT], producer_ids=[7], **filters)
    asked = next(asked for _, asked, _ in core.asked if isinstance(asked, ListTransactionsRequest))
    assert (asked.state_filters, asked.producer_id_filters) == (["PrepareCommit"], [7])
    assert asked.duration_filter == (1500 if "min_duration" in filters else -1)
    if first:
        core._newest = {ListTransactionsRequest: first - 1}
        with pytest.raises(AdminError) as caught:
            listing(core, **filters)
        assert all(isinstance(error, UnsupportedVersionError) for error in caught.value.errors.values())


def test_each_coordinator_describes_its_own_ids() -> None:
    core = ScriptedCore(Cluster({"a": 1, "b": 2, "c": 1}, DescribeTransactions=described))
    found = finished(describe_transactions(core, ["a", "b", "c"], soon()))
    assert [(each.transactional_id, each.coordinator.node_id, each.start_timestamp) for each in found.values()] == [
        ("a", 1, None),
        ("b", 2, None),
        ("c", 1, None),
    ]
    assert nodes_asked(core, DescribeTransactionsRequest) == [1, 2]
    finds = [asked for _, asked, _ in core.asked if isinstance(asked, FindCoordinatorRequest)]
    assert [asked.key_type for asked in finds] == [TRANSACTION]


def test_partitions_are_in_order_and_an_unknown_id_fails_for_itself() -> None:
    def some(node: int, request: DescribeTransactionsRequest) -> Answer:
        topics = [
            DescribeTransactionsResponse.TopicData("u", [0]),
            DescribeTransactionsResponse.TopicData("t", [2, 1]),
        ]
        missing = TransactionalIdNotFoundError.code
        return DescribeTransactionsResponse(
            transaction_states=[
                Described(transactional_id="a", transaction_state="PrepareAbort", topics=topics),
                Described(transactional_id="b", error_code=missing),
            ]
        )

    with pytest.raises(AdminError) as caught:
        finished(describe_transactions(ScriptedCore(Cluster(DescribeTransactions=some)), ["a", "b"], soon()))
    (found,) = caught.value.results.values()
    assert found.partitions == (TopicPartition("t", 1), TopicPartition("t", 2), TopicPartition("u", 0))
    assert isinstance(caught.value.errors["b"], TransactionalIdNotFoundError)


def test_fencing_waits_for_the_open_transaction_to_be_aborted() -> None:
    answers = {"a": [ConcurrentTransactionsError.code, ConcurrentTransactionsError.code, 0], "b": [0]}

    def init(node: int, request: InitProducerIdRequest) -> Answer:
        assert (request.producer_id, request.producer_epoch) == (-1, -1)
        assert request.transaction_timeout_ms == core.config.request_timeout_ms
        code = answers[request.transactional_id or ""].pop(0)
        return InitProducerIdResponse(error_code=code, producer_id=7, producer_epoch=3)

    core = ScriptedCore(Cluster(InitProducerId=init))
    assert finished(fence_producers(core, ["a", "b"], soon())) == dict.fromkeys("ab", FencedProducer(7, 3))
    assert answers == {"a": [], "b": []}, "what is fenced is not fenced again"


def test_an_id_that_cannot_be_fenced_fails_for_itself() -> None:
    def init(node: int, request: InitProducerIdRequest) -> Answer:
        code = InvalidTxnTimeoutError.code if request.transactional_id == "b" else 0
        return InitProducerIdResponse(error_code=code, producer_id=7, producer_epoch=3)

    with pytest.raises(AdminError) as caught:
        finished(fence_producers(ScriptedCore(Cluster(InitProducerId=init)), ["b", "a"], soon()))
    assert caught.value.results == {"a": FencedProducer(7, 3)}
    assert isinstance(caught.value.errors["b"], InvalidTxnTimeoutError)
