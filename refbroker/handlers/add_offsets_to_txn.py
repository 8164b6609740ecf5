"""AddOffsetsToTxn (25), versions 0 to 4: adds the offsets of a group to a transaction.

It adds the partition of `__consumer_offsets` to which the group belongs. With transactions version 2, producers do not
send it, because TxnOffsetCommit adds the partition. A fenced producer gets PRODUCER_FENCED, before version 2
INVALID_PRODUCER_EPOCH.

Permissions: WRITE on the transactional id, READ on the group.
"""

from __future__ import annotations

import asyncio

from kclient.errors import KafkaError
from kclient.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from refbroker.coordinators.internal_topic import OFFSETS_TOPIC
from refbroker.handlers.answers import transaction_code
from refbroker.handlers.context import Context
from refbroker.handlers.services import TransactionServices
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import READ_GROUP, WRITE_TRANSACTIONAL_ID

FIRST_WITH_PRODUCER_FENCED = 2


def handle(
    context: Context[TransactionServices], request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse | asyncio.Future[AddOffsetsToTxnResponse]:
    """Carry out an AddOffsetsToTxn request."""
    broker, access = context.broker, context.access
    refusal = access.refusal(WRITE_TRANSACTIONAL_ID, request.transactional_id) or access.refusal(
        READ_GROUP, request.group_id
    )
    if refusal is not None:
        return AddOffsetsToTxnResponse(error_code=code_of(refusal))

    def ask() -> AddOffsetsToTxnResponse:
        broker.transactions.add_partitions(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            [(OFFSETS_TOPIC, broker.groups.topic.partition_for(request.group_id))],
            client_version=0,
        )
        return AddOffsetsToTxnResponse()

    def failed(error: KafkaError) -> AddOffsetsToTxnResponse:
        code = transaction_code(error, knows_fenced=context.version >= FIRST_WITH_PRODUCER_FENCED)
        return AddOffsetsToTxnResponse(error_code=code)

    return broker.transactions.answer(request.transactional_id, ask, failed)
