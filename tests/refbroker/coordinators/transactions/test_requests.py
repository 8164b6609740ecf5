"""What each request of a producer comes to in each state, and who is fenced."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kclient.errors import (
    ConcurrentTransactionsError,
    CoordinatorNotAvailableError,
    InvalidPidMappingError,
    InvalidProducerEpochError,
    InvalidRequestError,
    NotCoordinatorError,
    OperationNotAttemptedError,
    ProducerFencedError,
    TransactionAbortableError,
    UnknownTopicOrPartitionError,
)
from kclient.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kclient.protocol.messages.delete_topics import DeleteTopicsRequest
from kclient.records import read_batches
from refbroker.log import TransactionMarker
from tests.support.transaction_harness import DATA, ID, TOPIC, Identity, TransactionHarness

OK = 0
CONCURRENT = ConcurrentTransactionsError.code
FENCED = ProducerFencedError.code
OLD_EPOCH = InvalidProducerEpochError.code
OTHER_ID = InvalidPidMappingError.code
ABORTABLE = TransactionAbortableError.code
INVALID = InvalidRequestError.code

STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")


def bring(broker: TransactionHarness, state: str, name: str = ID) -> Identity:
    """Bring a transactional id into a state, and give the identity that it has then."""
    who = broker.identity(name)
    if state != "Empty":
        broker.begin(who, name=name)
    if state not in ("Empty", "Ongoing"):
        if state.startswith("Prepare"):
            broker.hold_markers()
        error, _ = broker.end(who, commit=state.endswith("Commit"), name=name)
        assert error == 0
    assert broker.state(name).state.title == state
    return broker.state(name).producer_id, broker.state(name).producer_epoch


# In the order of the states; what the producer asks for that has the transactional id now.
REQUESTS: dict[str, tuple[Callable[[TransactionHarness, Identity, str], int], tuple[int, ...]]] = {
    "init of a new producer": (
        lambda broker, who, name: broker.init(name=name)[0],
        (OK, CONCURRENT, CONCURRENT, CONCURRENT, OK, OK),
    ),
    "init of the same producer": (
        lambda broker, who, name: broker.init(who, name=name)[0],
        (OK, CONCURRENT, CONCURRENT, CONCURRENT, OK, OK),
    ),
    "init of another producer": (
        lambda broker, who, name: broker.init((who[0] + 500, who[1]), name=name)[0],
        (FENCED, FENCED, CONCURRENT, CONCURRENT, FENCED, FENCED),
    ),
    "add of a client": (
        lambda broker, who, name: broker.add(who, name=name)[0],
        (OK, OK, CONCURRENT, CONCURRENT, OK, OK),
    ),
    "add of a broker": (
        lambda broker, who, name: broker.ask(who, name=name, verify_only=False)[0],
        (OK, OK, CONCURRENT, CONCURRENT, OK, OK),
    ),
    "add of a zombie": (
        lambda broker, who, name: broker.add((who[0], who[1] - 1), name=name)[0],
        (FENCED, FENCED, CONCURRENT, CONCURRENT, FENCED, FENCED),
    ),
    "add of another producer": (
        lambda broker, who, name: broker.add((who[0] + 500, who[1]), name=name)[0],
        (OTHER_ID, OTHER_ID, CONCURRENT, CONCURRENT, OTHER_ID, OTHER_ID),
    ),
    "add of offsets": (
        lambda broker, who, name: broker.add_offsets(who, name=name),
        (OK, OK, CONCURRENT, CONCURRENT, OK, OK),
    ),
    "verify": (
        lambda broker, who, name: broker.ask(who, name=name, verify_only=True)[0],
        (ABORTABLE, OK, CONCURRENT, CONCURRENT, ABORTABLE, ABORTABLE),
    ),
    "verify of a zombie": (
        lambda broker, who, name: broker.ask((who[0], who[1] - 1), name=name, verify_only=True)[0],
        (FENCED,) * 6,
    ),
    "verify of another producer": (
        lambda broker, who, name: broker.ask((who[0] + 500, who[1]), name=name, verify_only=True)[0],
        (OTHER_ID,) * 6,
    ),
}


@pytest.mark.parametrize("state", STATES)
async def test_every_request_in_every_state(broker: TransactionHarness, state: str) -> None:
    identities = {request: bring(broker, state, request) for request in REQUESTS}
    found = {request: send(broker, identities[request], request) for request, (send, _) in REQUESTS.items()}
    assert found == {request: codes[STATES.index(state)] for request, (_, codes) in REQUESTS.items()}


@pytest.mark.parametrize("state", STATES)
async def test_what_is_refused_leaves_everything_as_it_was(broker: TransactionHarness, state: str) -> None:
    who = bring(broker, state)
    before, written = broker.state(), broker.log().log_end_offset
    for send, codes in REQUESTS.values():
        code = codes[STATES.index(state)]
        if code and (state, code) != ("Ongoing", CONCURRENT):
            send(broker, who, ID)
    assert (broker.state(), broker.log().log_end_offset) == (before, written)


async def test_an_id_without_a_producer_has_no_transactions(broker: TransactionHarness) -> None:
    assert broker.add((0, 0)) == [OTHER_ID]
    assert broker.add_offsets((0, 0)) == OTHER_ID
    assert broker.ask((0, 0), verify_only=True) == broker.ask((0, 0), verify_only=False) == [OTHER_ID]
    assert broker.end((0, 0), commit=True)[0] == OTHER_ID


async def test_an_empty_id_is_no_id(broker: TransactionHarness) -> None:
    assert broker.init(name="") == (INVALID, (-1, -1))
    assert broker.add((0, 0), name="") == [INVALID]
    assert broker.add_offsets((0, 0), name="") == INVALID
    assert broker.ask((0, 0), name="", verify_only=True) == [INVALID]
    assert broker.end((0, 0), name="", commit=True)[0] == INVALID


async def test_clients_that_do_not_know_that_they_are_fenced_learn_of_their_epoch(broker1: TransactionHarness) -> None:
    zombie, who = broker1.identity(), broker1.identity()
    assert (broker1.add(zombie, api=1), broker1.add(zombie, api=2)) == ([OLD_EPOCH], [FENCED])
    assert (broker1.add_offsets(zombie, api=1), broker1.add_offsets(zombie, api=2)) == (OLD_EPOCH, FENCED)
    broker1.begin(who)
    assert [broker1.end(zombie, commit=True, api=api)[0] for api in (0, 1, 2, 4)] == [
        OLD_EPOCH,
        OLD_EPOCH,
        FENCED,
        FENCED,
    ]
    broker1.end(who, commit=True)
    assert [broker1.init((zombie[0], 77), api=api)[0] for api in (3, 4)] == [OLD_EPOCH, FENCED]


# Partitions


async def test_partitions_are_added_to_those_that_are_there(broker: TransactionHarness) -> None:
    who = broker.identity()
    broker.begin(who, [(DATA, 1)])
    broker.begin(who, [(DATA, 0), (DATA, 1)])
    assert broker.add_offsets(who) == 0
    assert broker.state().partitions == {(DATA, 0), (DATA, 1), ("__consumer_offsets", 0)}
    written = broker.log().log_end_offset
    broker.begin(who, [(DATA, 0)])
    assert broker.log().log_end_offset == written, "it is known already"


async def test_one_partition_that_does_not_exist_keeps_the_others_out(broker: TransactionHarness) -> None:
    who = broker.identity()
    unknown, other = UnknownTopicOrPartitionError.code, OperationNotAttemptedError.code
    partitions = [(DATA, 0), (DATA, 5), ("none", 0)]
    assert broker.add(who, partitions) == [other, unknown, unknown]
    assert broker.ask(who, partitions, verify_only=False) == [other, unknown, unknown]
    assert broker.ask(who, partitions, verify_only=True) == [other, unknown, unknown]
    assert broker.state().state.title == "Empty"


async def test_a_broker_asks_for_several_transactions_at_once(broker2: TransactionHarness) -> None:
    names = ["a", "b", "c"]
    identities = {name: broker2.identity(name) for name in names}
    topics = [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=DATA, partitions=[0, 1])]
    transactions = [
        AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
            transactional_id=name,
            producer_id=producer_id,
            producer_epoch=epoch,
            verify_only=name == "b",
            topics=topics,
        )
        for name, (producer_id, epoch) in identities.items()
    ]
    answer = broker2.send(AddPartitionsToTxnRequest(transactions=transactions), 4)
    codes = {
        result.transactional_id: [partition.partition_error_code for partition in topic.results_by_partition]
        for result in answer.results_by_transaction
        for topic in result.topic_results
    }
    assert codes == {"a": [OK, OK], "b": [ABORTABLE, ABORTABLE], "c": [OK, OK]}


async def test_leaders_learn_of_a_fenced_producer_what_produce_can_say(broker2: TransactionHarness) -> None:
    zombie, who = broker2.identity(), broker2.identity()
    verify, partitions = broker2.broker.transactions.verify, [(DATA, 0), (DATA, 1)]

    def codes(identity: Identity, *, add: bool) -> list[int | None]:
        answers = verify(ID, *identity, partitions, add=add)
        assert isinstance(answers, dict)
        assert list(answers) == partitions
        return [None if error is None else error.code for error in answers.values()]

    assert codes(zombie, add=True) == codes(zombie, add=False) == [OLD_EPOCH, OLD_EPOCH]
    assert codes(who, add=False) == [ABORTABLE, ABORTABLE]
    assert codes(who, add=True) == codes(who, add=False) == [None, None]


async def test_without_its_topic_nobody_is_the_coordinator(broker2: TransactionHarness) -> None:
    who = broker2.identity()
    deleted = broker2.send(DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name=TOPIC)]), 6)
    assert deleted.responses[0].error_code == 0
    assert broker2.add(who) == [NotCoordinatorError.code]
    assert broker2.init()[0] == NotCoordinatorError.code
    answers = broker2.broker.transactions.verify(ID, *who, [(DATA, 0)], add=False)
    assert isinstance(answers, dict)
    assert [type(error) for error in answers.values()] == [CoordinatorNotAvailableError]


# Records and markers


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
async def test_a_transaction_is_prepared_then_marked_then_complete(broker: TransactionHarness, commit: bool) -> None:
    who = broker.identity()
    broker.begin(who)
    assert broker.write(who, b"a") == 0
    broker.clock.step(10)
    error, after = broker.end(who, commit=commit)
    assert error == 0
    bump = 1 if broker.version == 2 else 0
    if bump:
        assert after == (who[0], who[1] + 1)
    values = [value for _, value in broker.records() if value is not None]
    assert [value.transaction_status for value in values] == [0, 1, *((2, 4) if commit else (3, 5))]
    assert [value.producer_epoch for value in values] == [0, 0, bump, bump]
    assert [value.client_transaction_version for value in values] == [0, *[2 * bump] * 3]
    assert broker.markers(0) == broker.markers(1) == [(commit, bump)]
    assert broker.log(DATA).last_stable_offset == broker.log(DATA).log_end_offset == 2


async def test_records_have_the_version_of_the_feature(broker: TransactionHarness) -> None:
    broker.identity()
    [stored] = read_batches(broker.log().read(0, 1 << 20).records.read())
    [record] = stored.records()
    assert record.value is not None
    assert int.from_bytes(record.value[:2], "big") == min(broker.version, 1)


async def test_markers_that_have_to_wait_are_written_when_they_can_be(broker: TransactionHarness) -> None:
    who = broker.identity()
    broker.begin(who)
    broker.hold_markers()
    error, after = broker.end(who, commit=True)
    assert (error, broker.state().state.title) == (0, "PrepareCommit"), "it is decided, and the producer knows"
    assert (broker.markers(0), len(broker.markers(1))) == ([], 1)
    await broker.pass_time(1000)
    assert broker.state().state.title == "PrepareCommit"
    broker.release_markers()
    await broker.pass_time(100)
    assert broker.state().state.title == "CompleteCommit"
    assert (len(broker.markers(0)), len(broker.markers(1))) == (1, 1), "nothing is marked twice"
    broker.begin(after if broker.version == 2 else who)


async def test_a_partition_that_is_deleted_meanwhile_needs_no_marker(broker: TransactionHarness) -> None:
    who = broker.identity()
    broker.begin(who)
    deleted = broker.send(DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name=DATA)]), 6)
    assert deleted.responses[0].error_code == 0
    assert broker.end(who, commit=True)[0] == 0
    assert broker.state().state.title == "CompleteCommit"


async def test_a_producer_of_version_2_may_abort_what_never_began(broker2: TransactionHarness) -> None:
    who = broker2.identity()
    for epoch in (1, 2):
        error, who = broker2.end(who, commit=False)
        assert (error, who[1], broker2.state().state.title) == (0, epoch, "CompleteAbort")
    assert broker2.markers() == []


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
async def test_an_end_whose_answer_was_lost_is_answered_again(broker: TransactionHarness, commit: bool) -> None:
    who = broker.identity()
    broker.begin(who)
    first = broker.end(who, commit=commit)
    written = broker.log().log_end_offset
    assert broker.end(who, commit=commit) == first == (0, first[1])
    assert broker.log().log_end_offset == written
    assert broker.end(who, commit=not commit)[0] == 48
    assert broker.markers(0) == broker.markers(1) == [(commit, broker.state().producer_epoch)]


async def test_a_late_end_of_a_zombie_does_not_end_a_later_transaction(broker2: TransactionHarness) -> None:
    zombie = broker2.identity()
    broker2.begin(zombie)
    _, who = broker2.end(zombie, commit=True)
    broker2.begin(who)
    assert broker2.end(zombie, commit=True)[0] == FENCED
    assert broker2.state().state.title == "Ongoing"


# Pending writes


async def test_a_write_that_fails_changes_nothing(broker: TransactionHarness) -> None:
    who = broker.identity()
    broker.begin(who, [(DATA, 0)])
    before = broker.state()
    broker.assign(TOPIC, 7)
    unavailable = CoordinatorNotAvailableError.code
    assert broker.add(who, [(DATA, 1)]) == [unavailable]
    assert broker.end(who, commit=True)[0] == unavailable
    assert broker.init()[0] == unavailable
    assert broker.state() == before
    broker.configure(TOPIC, "1")
    assert broker.end(who, commit=True)[0] == 0


async def test_a_complete_record_that_cannot_be_written_is_tried_again(broker: TransactionHarness) -> None:
    who = broker.identity()
    broker.begin(who)
    broker.hold_markers()
    broker.end(who, commit=True)
    broker.release_markers()
    broker.assign(TOPIC, 7)
    await broker.pass_time(100)
    assert (len(broker.markers(0)), broker.state().state.title) == (1, "PrepareCommit")
    broker.configure(TOPIC, "1")
    await broker.pass_time(100)
    assert (len(broker.markers(0)), broker.state().state.title) == (1, "CompleteCommit")


async def test_a_marker_that_is_another_coordinators_ends_the_work_until_the_next_start(
    broker: TransactionHarness, caplog: pytest.LogCaptureFixture
) -> None:
    who = broker.identity()
    broker.begin(who)
    marker = TransactionMarker(who[0], who[1] + 5, 99, commit=False, transaction_version=0)
    later = broker.broker.markers.write(marker, [(DATA, 0)])
    assert later == {(DATA, 0): None}
    broker.end(who, commit=True)
    assert broker.state().state.title == "PrepareCommit"
    assert f"cannot complete the transaction of {ID}" in caplog.text
    await broker.pass_time(10_000)
    assert broker.state().state.title == "PrepareCommit"
