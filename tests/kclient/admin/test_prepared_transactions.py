"""Ending a prepared transaction: with which version, how often it is tried, and what each refusal means."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from kclient.admin.prepared_transactions import TransactionOutcome, complete_transaction, outcome_of
from kclient.admin.transactions import TransactionDescription, TransactionState
from kclient.errors import (
    AdminError,
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    DisconnectedError,
    InvalidPidMappingError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    NotCoordinatorError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionalIdAuthorizationError,
    TransactionalIdNotFoundError,
)
from kclient.net.coordinator import TRANSACTION
from kclient.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kclient.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from kclient.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest
from kclient.types import Node, PreparedTransaction
from tests.kclient.admin.scripted import Answer, Cluster, ScriptedCore, finished, nodes_asked, soon

PREPARED = PreparedTransaction("etl-1", 40, 7)
LAST_EPOCH = 32766
State = TransactionState


def script(
    ends: Iterable[type[Any] | None],
    *,
    level: int = 2,
    state: TransactionState = State.ONGOING,
    producer_id: int = 40,
    epoch: int = 7,
    describe_error: type[Any] | None = None,
    **handlers: Callable[[int, Any], Answer],
) -> ScriptedCore:
    """A coordinator whose answers to EndTxn are these, and that describes the transactional id so."""
    answers = iter(ends)

    def versions(node: int, request: ApiVersionsRequest) -> Answer:
        feature = ApiVersionsResponse.FinalizedFeatureKey(name="transaction.version", max_version_level=level)
        return ApiVersionsResponse(finalized_features=[feature] if level else [])

    def end(node: int, request: EndTxnRequest) -> Answer:
        error = next(answers)
        if error is not None and error.code is None:
            return error("lost")  # type: ignore[no-any-return]
        return EndTxnResponse(error_code=0 if error is None else error.code)

    def describe(node: int, request: DescribeTransactionsRequest) -> Answer:
        kind = DescribeTransactionsResponse
        return kind(
            transaction_states=[
                kind.TransactionState(
                    error_code=0 if describe_error is None else describe_error.code,
                    transactional_id=request.transactional_ids[0],
                    transaction_state=state.value,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    transaction_timeout_ms=60_000,
                )
            ]
        )

    all_handlers: Any = {"ApiVersions": versions, "EndTxn": end, "DescribeTransactions": describe, **handlers}
    return ScriptedCore(Cluster(**all_handlers))


def complete(core: ScriptedCore, *, commit: bool = True, prepared: PreparedTransaction = PREPARED) -> None:
    finished(complete_transaction(core, prepared, commit, soon("complete_transaction")))


def ends_of(core: ScriptedCore) -> list[tuple[int, EndTxnRequest, int]]:
    return [(node, asked, version) for node, asked, version in core.asked if isinstance(asked, EndTxnRequest)]


@pytest.mark.parametrize(("level", "version"), [(2, 5), (3, 5), (1, 4), (0, 4)])
@pytest.mark.parametrize("commit", [True, False])
def test_the_version_that_raises_the_epoch_is_used_where_the_cluster_has_it(
    level: int, version: int, commit: bool
) -> None:
    core = script([None], level=level)
    complete(core, commit=commit)
    ((_, asked, used),) = ends_of(core)
    assert used == version
    assert (asked.transactional_id, asked.producer_id, asked.producer_epoch) == ("etl-1", 40, 7)
    assert asked.committed is commit
    finds = [asked for _, asked, _ in core.asked if isinstance(asked, FindCoordinatorRequest)]
    assert [asked.key_type for asked in finds] == [TRANSACTION]


@pytest.mark.parametrize(
    "error",
    [
        ConcurrentTransactionsError,
        CoordinatorLoadInProgressError,
        CoordinatorNotAvailableError,
        NotCoordinatorError,
        DisconnectedError,
    ],
)
def test_what_can_pass_is_tried_again_at_the_coordinator_of_then(error: type[Any]) -> None:
    cluster: Any = None

    def end(node: int, request: EndTxnRequest) -> Answer:
        if node == 2:
            return EndTxnResponse()
        cluster.homes["etl-1"] = 2
        return error("lost") if error.code is None else EndTxnResponse(error_code=error.code)

    core = script([], EndTxn=end)
    cluster = core._answer
    complete(core)
    assert nodes_asked(core, EndTxnRequest) == [1, 2]
    assert nodes_asked(core, ApiVersionsRequest) == [1, 2]


@pytest.mark.parametrize("level", [1, 2])
def test_an_end_whose_answer_was_lost_is_done_when_the_repeated_call_finds_it_so(level: int) -> None:
    core = script([DisconnectedError, ConcurrentTransactionsError, None], level=level)
    complete(core)
    assert len(ends_of(core)) == 3


# What the coordinator may have of the transactional id when it refuses, as TransactionCoordinator.endTransaction does:
# version 2 or 1, what was asked for, the state, and the epoch as compared with the prepared one.
@pytest.mark.parametrize(
    ("level", "commit", "state", "epoch", "expected"),
    [
        (2, False, State.COMPLETE_COMMIT, 8, TransactionOutcome.COMMITTED),
        (2, False, State.PREPARE_COMMIT, 8, TransactionOutcome.COMMITTED),
        (2, True, State.COMPLETE_ABORT, 8, TransactionOutcome.ABORTED),
        (2, True, State.PREPARE_ABORT, 8, TransactionOutcome.ABORTED),
        (2, True, State.EMPTY, 7, TransactionOutcome.NOTHING_WRITTEN),
        (2, True, State.COMPLETE_COMMIT, 7, TransactionOutcome.NOTHING_WRITTEN),
        (2, True, State.COMPLETE_ABORT, 7, TransactionOutcome.NOTHING_OR_ABORTED),
        (2, True, State.EMPTY, 9, TransactionOutcome.REPLACED),
        (2, True, State.ONGOING, 8, TransactionOutcome.REPLACED),
        (2, False, State.COMPLETE_ABORT, 9, TransactionOutcome.REPLACED),
        (2, True, State.ONGOING, 7, TransactionOutcome.UNKNOWN),
        (1, False, State.COMPLETE_COMMIT, 7, TransactionOutcome.COMMITTED),
        (1, False, State.PREPARE_COMMIT, 7, TransactionOutcome.COMMITTED),
        (1, True, State.COMPLETE_ABORT, 7, TransactionOutcome.ABORTED),
        (1, True, State.EMPTY, 7, TransactionOutcome.NOTHING_WRITTEN),
        (1, False, State.EMPTY, 7, TransactionOutcome.NOTHING_WRITTEN),
        (1, True, State.COMPLETE_ABORT, 8, TransactionOutcome.TIMED_OUT_OR_REPLACED),
        (1, False, State.PREPARE_ABORT, 8, TransactionOutcome.TIMED_OUT_OR_REPLACED),
        (1, True, State.EMPTY, 8, TransactionOutcome.REPLACED),
        (1, True, State.COMPLETE_COMMIT, 8, TransactionOutcome.REPLACED),
        (1, True, State.ONGOING, 9, TransactionOutcome.REPLACED),
    ],
)
def test_a_refusal_means_what_the_coordinator_has_of_the_id_now(
    level: int, commit: bool, state: TransactionState, epoch: int, expected: TransactionOutcome
) -> None:
    found = TransactionDescription("etl-1", state, 40, epoch, 60_000, None, (), Node(1, "h", 1))
    assert outcome_of(PREPARED, found, commit, level == 2) is expected


@pytest.mark.parametrize(
    ("state", "producer_id", "commit", "expected"),
    [
        (State.COMPLETE_COMMIT, 41, False, TransactionOutcome.COMMITTED),
        (State.COMPLETE_ABORT, 41, True, TransactionOutcome.ABORTED),
        (State.EMPTY, 41, True, TransactionOutcome.REPLACED),
    ],
)
def test_the_end_of_the_last_epoch_gives_a_new_producer_id(
    state: TransactionState, producer_id: int, commit: bool, expected: TransactionOutcome
) -> None:
    found = TransactionDescription("etl-1", state, producer_id, 0, 60_000, None, (), Node(1, "h", 1))
    assert outcome_of(PreparedTransaction("etl-1", 40, LAST_EPOCH), found, commit, raises_epoch=True) is expected
    assert outcome_of(PREPARED, found, commit, raises_epoch=True) is TransactionOutcome.REPLACED


@pytest.mark.parametrize(
    ("answer", "now", "raised", "says"),
    [
        (
            InvalidTxnStateError,
            {"state": State.COMPLETE_COMMIT, "epoch": 8},
            InvalidTxnStateError,
            "is already committed",
        ),
        (ProducerFencedError, {"state": State.EMPTY, "epoch": 9}, ProducerFencedError, "was used again after"),
        (InvalidProducerEpochError, {"state": State.EMPTY, "epoch": 9}, ProducerFencedError, "was used again after"),
        (InvalidPidMappingError, {"producer_id": 41, "epoch": 0}, ProducerFencedError, "with producer id 41, epoch 0"),
        (
            InvalidPidMappingError,
            {"describe_error": TransactionalIdNotFoundError},
            InvalidPidMappingError,
            r"transactional\.id\.expiration\.ms",
        ),
        (
            ProducerFencedError,
            {"describe_error": TransactionalIdAuthorizationError},
            ProducerFencedError,
            r"either of which aborts it \[",
        ),
    ],
)
def test_the_error_says_what_became_of_the_transaction(
    answer: type[Any], now: dict[str, Any], raised: type[Any], says: str
) -> None:
    with pytest.raises(raised, match=says) as caught:
        complete(script([answer], **now), commit=False)
    assert "abort of 'etl-1' (producer id 40, epoch 7) is refused" in caught.value.message
    assert caught.value.api == "EndTxn"
    assert isinstance(caught.value.__cause__, answer)


def test_a_broker_that_does_not_describe_transactions_leaves_it_open_which_it_was() -> None:
    core = script([ProducerFencedError])
    core._newest = {DescribeTransactionsRequest: -1}
    with pytest.raises(ProducerFencedError, match="ended with the other outcome, or its timeout passed, or a producer"):
        complete(core)


def test_nothing_to_commit_is_no_error() -> None:
    complete(script([InvalidTxnStateError], state=State.COMPLETE_COMMIT))


def test_a_transaction_that_can_only_be_aborted_says_how() -> None:
    with pytest.raises(TransactionAbortableError, match=r"complete_transaction\(prepared, commit=False\)"):
        complete(script([TransactionAbortableError]))


def test_other_errors_are_raised_as_they_are() -> None:
    with pytest.raises(TransactionalIdAuthorizationError) as caught:
        complete(script([TransactionalIdAuthorizationError]))
    assert not isinstance(caught.value, AdminError)
    assert caught.value.api == "EndTxn"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((("etl-1", 40, 7), True), "takes a PreparedTransaction, not"),
        ((PREPARED, "yes"), r"complete_transaction\(commit=\) takes a bool, not 'yes'"),
    ],
)
def test_what_is_no_prepared_transaction_is_refused(arguments: Any, says: str) -> None:
    prepared, commit = arguments
    with pytest.raises(TypeError, match=says):
        finished(complete_transaction(script([]), prepared, commit, soon("complete_transaction")))
