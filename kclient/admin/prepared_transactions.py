"""Ends a transaction that another process prepared, and explains its outcome if that is too late.

The coordinator compares producer id and epoch. What it keeps of an end depends on the version of EndTxn:

- From version 5 on (transaction.version 2, KIP-890) an end raises the epoch. So CompleteCommit at the epoch after the
  prepared one belongs to this transaction, and a repeated call can be distinguished from one for a later transaction.
  An abort by timeout looks like a requested one.
- Up to version 4 an end leaves the epoch as it is, and an abort by timeout raises it.

With every version, init_transactions raises the epoch after it has aborted an open transaction. Then the outcome of the
last transaction of the previous epoch is unknown.
"""

from __future__ import annotations

from enum import Enum

from kclient._version import __version__
from kclient.admin.arguments import instance
from kclient.admin.coordinators import at_coordinators
from kclient.admin.core import AdminCore, Outcomes
from kclient.admin.transactions import TransactionDescription, TransactionState, describe_transactions
from kclient.errors import (
    AdminError,
    BrokerError,
    InvalidPidMappingError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    KafkaError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionalIdNotFoundError,
    error_from_code,
    raise_for_code,
)
from kclient.net.coordinator import TRANSACTION
from kclient.net.deadline import Deadline
from kclient.net.handshake import SOFTWARE_NAME
from kclient.net.operation import Operation
from kclient.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kclient.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kclient.types import Node, PreparedTransaction

_LAST_VERSION_WITHOUT_BUMP = 4
_LEVEL_WITH_BUMP = 2
_LAST_EPOCH = 32766
"""The highest epoch of a producer; ending its transaction brings a new producer id with epoch 0."""


class TransactionOutcome(Enum):
    """The outcome of a transaction that cannot be ended as requested."""

    UNKNOWN = 0
    COMMITTED = 1
    ABORTED = 2
    NOTHING_WRITTEN = 3
    NOTHING_OR_ABORTED = 4
    TIMED_OUT_OR_REPLACED = 5
    REPLACED = 6
    FORGOTTEN = 7


_COMMITS = {TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT}
_ABORTS = {TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT}
_AGAIN = (
    "a consumer with isolation_level='read_committed' never sees its records; the application has to "
    "write them again, in another transaction"
)
_TEXTS: dict[TransactionOutcome, tuple[type[BrokerError] | None, str]] = {
    TransactionOutcome.UNKNOWN: (
        None,
        (
            "the transaction is no longer open: it ended with the other outcome, or its timeout passed, or a "
            "producer called init_transactions with its transactional id, either of which aborts it"
        ),
    ),
    TransactionOutcome.COMMITTED: (
        InvalidTxnStateError,
        "the transaction is already committed, and can no longer be aborted",
    ),
    TransactionOutcome.ABORTED: (
        InvalidTxnStateError,
        (
            "the transaction is already aborted, and can no longer be committed: that was requested, or its timeout "
            f"passed while it was open, or a producer called init_transactions with its transactional id; {_AGAIN}"
        ),
    ),
    TransactionOutcome.NOTHING_OR_ABORTED: (
        InvalidTxnStateError,
        (
            "there is nothing to commit: either nothing was written in the transaction, and nothing is lost, or it was "
            f"aborted already; then {_AGAIN}"
        ),
    ),
    TransactionOutcome.TIMED_OUT_OR_REPLACED: (
        ProducerFencedError,
        (
            "the transaction is no longer open: most likely its timeout passed, and the coordinator aborted it; or "
            "it was ended before, and a newer producer of its transactional id has aborted one since. If it was "
            f"aborted, {_AGAIN}"
        ),
    ),
    TransactionOutcome.REPLACED: (
        ProducerFencedError,
        (
            "the transactional id was used again after this transaction was prepared: by init_transactions, which "
            "aborts what is open, or for the next transaction, after this one had ended; its outcome is no longer "
            "known"
        ),
    ),
    TransactionOutcome.FORGOTTEN: (
        InvalidPidMappingError,
        (
            "the coordinator does not know the transactional id: it wrote nothing for longer than the broker's "
            "transactional.id.expiration.ms, or never did. The transaction is not open, and how it ended is not known"
        ),
    ),
}


def complete_transaction(
    core: AdminCore, prepared: PreparedTransaction, commit: bool, deadline: Deadline
) -> Operation[None]:
    instance(prepared, PreparedTransaction, deadline.name)
    instance(commit, bool, f"{deadline.name}(commit=)")
    request = EndTxnRequest(
        transactional_id=prepared.transactional_id,
        producer_id=prepared.producer_id,
        producer_epoch=prepared.epoch,
        committed=commit,
    )
    raises_epoch = False

    def ask(node: Node, asked: list[str]) -> Operation[Outcomes[str, None]]:
        nonlocal raises_epoch
        raises_epoch = (yield from _transaction_version(core, node, deadline)) >= _LEVEL_WITH_BUMP
        answer: EndTxnResponse = yield from core.request(
            node.node_id,
            EndTxnRequest,
            lambda version: request,
            deadline,
            maximum_version=None if raises_epoch else _LAST_VERSION_WITHOUT_BUMP,
        )
        return {asked[0]: error_from_code(answer.error_code, api="EndTxn") if answer.error_code else None}

    try:
        yield from at_coordinators(core, [prepared.transactional_id], ask, deadline, TRANSACTION)
    except AdminError as failed:
        (error,) = failed.errors.values()
        if isinstance(error, TransactionAbortableError):
            text = "the transaction can only be aborted: complete_transaction(prepared, commit=False)"
            raise TransactionAbortableError(text, api="EndTxn") from error
        if not isinstance(
            error, ProducerFencedError | InvalidProducerEpochError | InvalidPidMappingError | InvalidTxnStateError
        ):
            raise error from None
        explained = yield from _explained(core, prepared, commit, raises_epoch, type(error), deadline)
        if explained is not None:
            raise explained from error


def outcome_of(
    prepared: PreparedTransaction, found: TransactionDescription, commit: bool, raises_epoch: bool
) -> TransactionOutcome:
    """Return the meaning of a refusal, from the coordinator's current state of the transactional id.

    Parameters:
        commit: whether a commit was requested.
        raises_epoch: whether the request had a version of EndTxn that raises the epoch.
    """
    same_id = found.producer_id == prepared.producer_id
    same_epoch = same_id and found.producer_epoch == prepared.epoch
    next_epoch = (same_id and found.producer_epoch == prepared.epoch + 1) or (
        not same_id and prepared.epoch == _LAST_EPOCH and found.producer_epoch == 0
    )
    if same_epoch and found.state is TransactionState.EMPTY:
        return TransactionOutcome.NOTHING_WRITTEN
    if raises_epoch:
        if next_epoch and found.state in _COMMITS | _ABORTS:
            return TransactionOutcome.COMMITTED if found.state in _COMMITS else TransactionOutcome.ABORTED
        if same_epoch and found.state in _COMMITS | _ABORTS:
            # The end of the previous transaction assigned the epoch of this one, unless a client ended it with a
            # version that raises none.
            return (
                TransactionOutcome.NOTHING_WRITTEN
                if commit == (found.state in _COMMITS)
                else TransactionOutcome.NOTHING_OR_ABORTED
            )
    else:
        if same_epoch and found.state in _COMMITS | _ABORTS:
            return TransactionOutcome.COMMITTED if found.state in _COMMITS else TransactionOutcome.ABORTED
        if next_epoch and found.state in _ABORTS:
            return TransactionOutcome.TIMED_OUT_OR_REPLACED
    return TransactionOutcome.UNKNOWN if same_epoch else TransactionOutcome.REPLACED


def _explained(
    core: AdminCore,
    prepared: PreparedTransaction,
    commit: bool,
    raises_epoch: bool,
    refused_with: type[BrokerError],
    deadline: Deadline,
) -> Operation[KafkaError | None]:
    """Return the error that explains a refusal; None if nothing was written in the transaction, so that it has no
    effect.
    """
    found: TransactionDescription | None = None
    became = TransactionOutcome.UNKNOWN
    try:
        found = (yield from describe_transactions(core, prepared.transactional_id, deadline))[prepared.transactional_id]
        became = outcome_of(prepared, found, commit, raises_epoch)
    except AdminError as error:
        if isinstance(error.errors.get(prepared.transactional_id), TransactionalIdNotFoundError):
            became = TransactionOutcome.FORGOTTEN
    except KafkaError:
        became = TransactionOutcome.UNKNOWN  # for example a broker before 3.0, which does not describe transactions
    if became is TransactionOutcome.NOTHING_WRITTEN:
        return None
    kind, text = _TEXTS[became]
    if kind is None:
        # The coordinator returns the former up to version 1 of EndTxn, and the latter from then on.
        kind = ProducerFencedError if refused_with is InvalidProducerEpochError else refused_with
    now = (
        ""
        if found is None
        else (
            f"; the id is now {found.state.value} with producer id {found.producer_id}, epoch {found.producer_epoch} "
            f"and a timeout of {found.timeout_ms} ms"
        )
    )
    asked = f"{'commit' if commit else 'abort'} of {prepared.transactional_id!r}"
    which = f"(producer id {prepared.producer_id}, epoch {prepared.epoch})"
    return kind(f"{asked} {which} is refused: {text}{now}", api="EndTxn")


def _transaction_version(core: AdminCore, node: Node, deadline: Deadline) -> Operation[int]:
    """Return the coordinator's current level of the feature; a connection knows that of its setup."""
    answer: ApiVersionsResponse = yield from core.request(node.node_id, ApiVersionsRequest, _ask_for_versions, deadline)
    raise_for_code(answer.error_code, api="ApiVersions")
    levels = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    return levels.get("transaction.version", 0)


def _ask_for_versions(version: int) -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)
