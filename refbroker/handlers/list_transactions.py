"""ListTransactions (66), versions 0 to 2: the transactional ids that this broker coordinates (KIP-664).

Those in some states only, or of some producer ids; from version 1 on those whose transaction began long ago (KIP-994;
one without a beginning counts as such), from version 2 on those whose ids match a pattern of RE2 (KIP-1152). Names of
states that mean nothing are told apart. While a partition of `__transaction_state` is being loaded the answer is
COORDINATOR_LOAD_IN_PROGRESS, and no ids.

Permission: DESCRIBE on each transactional id that is told.
"""

from __future__ import annotations

from kclient.errors import KafkaError
from kclient.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from refbroker.coordinators.transactions.listing import list_transactions
from refbroker.handlers.context import Context
from refbroker.handlers.services import TransactionServices
from refbroker.runtime.error_codes import code_of


def handle(context: Context[TransactionServices], request: ListTransactionsRequest) -> ListTransactionsResponse:
    """Answer a ListTransactions request."""
    try:
        return list_transactions(context.broker.transactions, request, context.broker.clock())
    except KafkaError as error:
        return ListTransactionsResponse(error_code=code_of(error))
