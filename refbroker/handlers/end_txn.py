"""EndTxn (26), versions 0 to 5: commits or aborts a transaction.

The response is sent when the outcome is in the log and final. From version 5 on (transactions version 2, KIP-890), it
has the producer id and the epoch of the next transaction, because each end increments the epoch. A fenced producer gets
PRODUCER_FENCED, before version 2 INVALID_PRODUCER_EPOCH. Elsewhere: the response in each state, and to repeated
requests (`refbroker.coordinators.transactions.ending`).

Permissions: WRITE on the transactional id.
"""

from __future__ import annotations

import asyncio

from kclient.errors import KafkaError
from kclient.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from refbroker.coordinators.transactions.metadata import FIRST_WITH_EPOCH_BUMP
from refbroker.handlers.answers import transaction_code
from refbroker.handlers.context import Context
from refbroker.handlers.services import TransactionServices
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import WRITE_TRANSACTIONAL_ID

FIRST_WITH_PRODUCER_FENCED = 2
FIRST_OF_VERSION_2 = 5


def handle(
    context: Context[TransactionServices], request: EndTxnRequest
) -> EndTxnResponse | asyncio.Future[EndTxnResponse]:
    """Carry out an EndTxn request."""
    refusal = context.access.refusal(WRITE_TRANSACTIONAL_ID, request.transactional_id)
    if refusal is not None:
        return EndTxnResponse(error_code=code_of(refusal))
    bumps = context.version >= FIRST_OF_VERSION_2
    transactions = context.broker.transactions

    def ask() -> EndTxnResponse:
        after = transactions.end(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            commit=request.committed,
            client_version=FIRST_WITH_EPOCH_BUMP if bumps else 0,
        )
        return EndTxnResponse(producer_id=after.producer_id, producer_epoch=after.producer_epoch)

    def failed(error: KafkaError) -> EndTxnResponse:
        code = transaction_code(error, knows_fenced=context.version >= FIRST_WITH_PRODUCER_FENCED)
        return EndTxnResponse(error_code=code)

    return transactions.answer(request.transactional_id, ask, failed)
