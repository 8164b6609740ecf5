"""InitProducerId (22), versions 0 to 5: gives a producer its id and epoch.

Without a transactional id each call gives a new id at epoch 0 (a producer that asks with its old id, to go on after an
error as KIP-360 has it, gets a new one too, as in Kafka). With one, the transaction coordinator gives the next epoch of
the id that it has, which fences all producers before. A transaction that one of them left open is aborted first, and
the answer is CONCURRENT_TRANSACTIONS until the client asks again. From version 3 on a producer says what it has, and is
PRODUCER_FENCED (before version 4 INVALID_PRODUCER_EPOCH) when that is another's meanwhile. A timeout above
`transaction.max.timeout.ms` is INVALID_TRANSACTION_TIMEOUT; an empty transactional id, and an id without an epoch,
INVALID_REQUEST.

Not implemented: version 6, which is for two-phase commit (KIP-939).

Permissions: WRITE on the transactional id; without one IDEMPOTENT_WRITE on the cluster, or WRITE on any topic.
"""

from __future__ import annotations

from kclient.errors import InvalidRequestError, KafkaError
from kclient.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from refbroker.coordinators.transactions.shard import Identity
from refbroker.handlers.answers import transaction_code
from refbroker.handlers.context import Context
from refbroker.handlers.services import TransactionServices

FIRST_WITH_PRODUCER_FENCED = 4
NOBODY = Identity()


def handle(context: Context[TransactionServices], request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Carry out an InitProducerId request."""
    try:
        given = _identity(context, request)
    except KafkaError as error:
        code = transaction_code(error, knows_fenced=context.version >= FIRST_WITH_PRODUCER_FENCED)
        return InitProducerIdResponse(error_code=code, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=given.producer_id, producer_epoch=given.producer_epoch)


def _identity(context: Context[TransactionServices], request: InitProducerIdRequest) -> Identity:
    has = Identity(request.producer_id, request.producer_epoch)
    if has != NOBODY and (has.producer_id == NOBODY.producer_id or has.producer_epoch == NOBODY.producer_epoch):
        raise InvalidRequestError("a producer has both an id and an epoch, or neither")
    if request.transactional_id is None:
        return Identity(context.broker.producer_ids.next(), 0)
    return context.broker.transactions.init_producer_id(
        request.transactional_id, request.transaction_timeout_ms, None if has == NOBODY else has
    )
