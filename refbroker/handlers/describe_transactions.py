"""DescribeTransactions (65), version 0: the state of transactional ids (KIP-664).

Each for itself: TRANSACTIONAL_ID_NOT_FOUND for one that there is not, INVALID_REQUEST for an empty one, NOT_COORDINATOR
for one that another broker coordinates. While a transaction is being completed its partitions are those that have no
marker yet.

Permissions: DESCRIBE on the transactional id, and on each topic that is told.
"""

from __future__ import annotations

from kclient.errors import KafkaError
from kclient.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from refbroker.coordinators.transactions.listing import describe
from refbroker.handlers.context import Context
from refbroker.handlers.services import TransactionServices
from refbroker.runtime.error_codes import code_of

State = DescribeTransactionsResponse.TransactionState


def handle(context: Context[TransactionServices], request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
    """Answer a DescribeTransactions request."""
    states = [_describe(context, transactional_id) for transactional_id in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=states)


def _describe(context: Context[TransactionServices], transactional_id: str) -> State:
    try:
        return describe(context.broker.transactions, transactional_id)
    except KafkaError as error:
        return State(transactional_id=transactional_id, error_code=code_of(error))
