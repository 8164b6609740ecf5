"""DescribeTransactions (65), version 0: returns the state of transactional ids (KIP-664).

Each id has its own result: TRANSACTIONAL_ID_NOT_FOUND if it does not exist, INVALID_REQUEST if it is empty,
NOT_COORDINATOR if another broker coordinates it. While a transaction is being completed, the partitions are those
without a marker yet.

Permissions: DESCRIBE on the transactional id, and on each topic that is returned.
"""

from __future__ import annotations

import asyncio

from kclient.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from refbroker.coordinators.transactions.listing import describe
from refbroker.handlers.context import Context
from refbroker.handlers.services import TransactionServices
from refbroker.runtime.error_codes import code_of
from refbroker.runtime.eventual import all_of, then
from refbroker.security.permissions import DESCRIBE_TOPIC, DESCRIBE_TRANSACTIONAL_ID

State = DescribeTransactionsResponse.TransactionState


def handle(
    context: Context[TransactionServices], request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse | asyncio.Future[DescribeTransactionsResponse]:
    """Answer a DescribeTransactions request."""
    states = [_describe(context, transactional_id) for transactional_id in request.transactional_ids]
    return then(all_of(states), lambda found: DescribeTransactionsResponse(transaction_states=found))


def _describe(context: Context[TransactionServices], transactional_id: str) -> State | asyncio.Future[State]:
    access, transactions = context.access, context.broker.transactions

    def ask() -> State:
        refusal = access.refusal(DESCRIBE_TRANSACTIONAL_ID, transactional_id)
        if refusal is not None:
            raise refusal
        state = describe(transactions, transactional_id)
        state.topics = [topic for topic in state.topics if access.allows(DESCRIBE_TOPIC, topic.topic)]
        return state

    return transactions.answer(
        transactional_id, ask, lambda error: State(transactional_id=transactional_id, error_code=code_of(error))
    )
