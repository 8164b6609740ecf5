"""What administrators can read about transactions."""

from __future__ import annotations

from kclient.errors import (
    CoordinatorLoadInProgressError,
    InvalidRegularExpressionError,
    InvalidRequestError,
    NotCoordinatorError,
    TransactionalIdNotFoundError,
)
from kclient.protocol.messages.delete_topics import DeleteTopicsRequest
from kclient.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kclient.protocol.messages.list_transactions import ListTransactionsRequest
from tests.support.transaction_harness import DATA, ID, TOPIC, TransactionHarness


def listed(broker: TransactionHarness, api: int = 2, **filters: object) -> list[str]:
    answer = broker.send(ListTransactionsRequest(**filters), api)  # type: ignore[arg-type]
    assert answer.error_code == 0
    return sorted(f"{one.transactional_id} {one.transaction_state}" for one in answer.transaction_states)


def several(broker: TransactionHarness) -> None:
    broker.identity("idle")
    who = broker.identity("done")
    broker.begin(who, name="done")
    broker.end(who, commit=True, name="done")
    broker.clock.step(5000)
    broker.begin(broker.identity("open"), name="open")
    broker.clock.step(1000)


async def test_transactions_are_listed_by_state_producer_and_time(broker: TransactionHarness) -> None:
    several(broker)
    everything = ["done CompleteCommit", "idle Empty", "open Ongoing"]
    assert listed(broker) == everything
    assert listed(broker, state_filters=["Ongoing", "Empty"]) == everything[1:]
    assert listed(broker, producer_id_filters=[0, 1, 99]) == everything[:2]
    assert listed(broker, producer_id_filters=[0, 2], state_filters=["Ongoing"]) == ["open Ongoing"]
    assert listed(broker, duration_filter=999) == everything
    assert listed(broker, duration_filter=1000) == everything[:2], "one without a beginning counts as an old one"
    assert listed(broker, duration_filter=6000) == ["idle Empty"]


async def test_transactions_are_listed_by_a_pattern_of_the_whole_id(broker2: TransactionHarness) -> None:
    several(broker2)
    assert listed(broker2, transactional_id_pattern=".*e") == ["done CompleteCommit", "idle Empty"]
    assert listed(broker2, transactional_id_pattern="") == listed(broker2, transactional_id_pattern=None)
    assert listed(broker2, transactional_id_pattern="n") == []
    refused = broker2.send(ListTransactionsRequest(transactional_id_pattern="("), 2)
    assert (refused.error_code, refused.transaction_states) == (InvalidRegularExpressionError.code, [])


async def test_states_that_do_not_exist_are_distinguished(broker2: TransactionHarness) -> None:
    several(broker2)
    answer = broker2.send(ListTransactionsRequest(state_filters=["Ongoing", "ongoing", "Nothing"]), 0)
    assert answer.unknown_state_filters == ["ongoing", "Nothing"]
    assert [one.transactional_id for one in answer.transaction_states] == ["open"]
    assert broker2.send(ListTransactionsRequest(state_filters=["Nothing"]), 0).transaction_states == []


async def test_a_transaction_is_described(broker: TransactionHarness) -> None:
    who = broker.identity(timeout_ms=7000)
    broker.begin(who)
    broker.add_offsets(who)
    [one] = broker.send(DescribeTransactionsRequest(transactional_ids=[ID]), 0).transaction_states
    assert (one.error_code, one.transactional_id, one.transaction_state) == (0, ID, "Ongoing")
    assert (one.producer_id, one.producer_epoch, one.transaction_timeout_ms) == (*who, 7000)
    assert one.transaction_start_time_ms == broker.clock()
    assert {topic.topic: topic.partitions for topic in one.topics} == {DATA: [0, 1], "__consumer_offsets": [0]}


async def test_of_a_transaction_that_ends_those_partitions_learn_that_have_no_marker(
    broker: TransactionHarness,
) -> None:
    who = broker.identity()
    broker.begin(who)
    broker.hold_markers()
    broker.end(who, commit=True)

    def described() -> tuple[str, dict[str, list[int]]]:
        [one] = broker.send(DescribeTransactionsRequest(transactional_ids=[ID]), 0).transaction_states
        return one.transaction_state, {topic.topic: topic.partitions for topic in one.topics}

    assert described() == ("PrepareCommit", {DATA: [0]})
    broker.release_markers()
    await broker.pass_time(100)
    assert described() == ("CompleteCommit", {})


async def test_ids_that_cannot_be_described_say_why(broker2: TransactionHarness) -> None:
    broker2.identity()

    def codes(*ids: str) -> list[int]:
        answer = broker2.send(DescribeTransactionsRequest(transactional_ids=list(ids)), 0)
        assert [one.transactional_id for one in answer.transaction_states] == list(ids)
        return [one.error_code for one in answer.transaction_states]

    assert codes(ID, "none", "") == [0, TransactionalIdNotFoundError.code, InvalidRequestError.code]
    broker2.restart(clean=False)
    loading = CoordinatorLoadInProgressError.code
    assert codes(ID) == [loading]
    assert broker2.send(ListTransactionsRequest(), 2).error_code == loading
    await broker2.loaded()
    assert codes(ID) == [0]
    broker2.send(DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name=TOPIC)]), 6)
    assert codes(ID) == [NotCoordinatorError.code]
    assert listed(broker2) == []
