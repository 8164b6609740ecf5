"""ListTransactions (66), versions 0 to 2: returns the transactional ids that this broker coordinates (KIP-664).

Filters are states and producer ids, from version 1 on the age of the transaction (KIP-994; an id without a start time
counts as old), from version 2 on an RE2 pattern of ids (KIP-1152). Unknown names of states are returned separately.
While a partition of `__transaction_state` is loading, the response is COORDINATOR_LOAD_IN_PROGRESS without ids.

Permissions: the response has the transactional ids that the client may describe.
"""

from __future__ import annotations

import asyncio

from kclient.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from refbroker.coordinators.transactions.listing import list_transactions
from refbroker.handlers.context import Context
from refbroker.handlers.services import TransactionServices
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import DESCRIBE_TRANSACTIONAL_ID


def handle(
    context: Context[TransactionServices], request: ListTransactionsRequest
) -> ListTransactionsResponse | asyncio.Future[ListTransactionsResponse]:
    """Answer a ListTransactions request."""
    return context.broker.transactions.runtime.answer_of_all(
        lambda: _list(context, request), lambda error: ListTransactionsResponse(error_code=code_of(error))
    )


def _list(context: Context[TransactionServices], request: ListTransactionsRequest) -> ListTransactionsResponse:
    response = list_transactions(context.broker.transactions, request, context.broker.clock())
    allows = context.access.allows
    response.transaction_states = [
        state for state in response.transaction_states if allows(DESCRIBE_TRANSACTIONAL_ID, state.transactional_id)
    ]
    return response
