"""InitProducerId (22), versions 0 to 5: returns a producer id and epoch.

Without a transactional id, each request gets a new id with epoch 0, as in Kafka even if a producer sends its old id
after an error (KIP-360). With a transactional id, the coordinator returns the next epoch of its producer id, which
fences all earlier producers. It first aborts a transaction that one of them left open, and returns
CONCURRENT_TRANSACTIONS until that is done. From version 3 on, the producer sends its current id and epoch, and gets
PRODUCER_FENCED (before version 4 INVALID_PRODUCER_EPOCH) if another producer has taken over. A timeout above
`transaction.max.timeout.ms` is INVALID_TRANSACTION_TIMEOUT; an empty transactional id, and an id without an epoch, are
INVALID_REQUEST.

Not implemented: version 6, for two-phase commit (KIP-939).

Permissions: WRITE on the transactional id; without one, IDEMPOTENT_WRITE on the cluster, or WRITE on any topic.
"""

from __future__ import annotations

import asyncio

from kclient.errors import AuthorizationError, ClusterAuthorizationError, InvalidRequestError, KafkaError
from kclient.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from refbroker.coordinators.transactions.shard import Identity
from refbroker.handlers.answers import transaction_code
from refbroker.handlers.context import Context
from refbroker.handlers.services import TransactionServices
from refbroker.security.authorizer import Access
from refbroker.security.permissions import IDEMPOTENT_WRITE, WRITE_TOPIC, WRITE_TRANSACTIONAL_ID

FIRST_WITH_PRODUCER_FENCED = 4
NOBODY = Identity()


def handle(
    context: Context[TransactionServices], request: InitProducerIdRequest
) -> InitProducerIdResponse | asyncio.Future[InitProducerIdResponse]:
    """Carry out an InitProducerId request."""

    def ask() -> InitProducerIdResponse:
        given = _identity(context, request)
        return InitProducerIdResponse(producer_id=given.producer_id, producer_epoch=given.producer_epoch)

    def failed(error: KafkaError) -> InitProducerIdResponse:
        code = transaction_code(error, knows_fenced=context.version >= FIRST_WITH_PRODUCER_FENCED)
        return InitProducerIdResponse(error_code=code, producer_epoch=-1)

    if request.transactional_id is not None:
        return context.broker.transactions.answer(request.transactional_id, ask, failed)
    try:
        return ask()
    except KafkaError as error:
        return failed(error)


def _identity(context: Context[TransactionServices], request: InitProducerIdRequest) -> Identity:
    refusal = _refusal(context.access, request.transactional_id)
    if refusal is not None:
        raise refusal
    has = Identity(request.producer_id, request.producer_epoch)
    if has != NOBODY and (has.producer_id == NOBODY.producer_id or has.producer_epoch == NOBODY.producer_epoch):
        raise InvalidRequestError("a producer has both an id and an epoch, or neither")
    if request.transactional_id is None:
        return Identity(context.broker.producer_ids.next(), 0)
    return context.broker.transactions.init_producer_id(
        request.transactional_id, request.transaction_timeout_ms, None if has == NOBODY else has
    )


def _refusal(access: Access, transactional_id: str | None) -> AuthorizationError | None:
    if transactional_id is not None:
        return access.refusal(WRITE_TRANSACTIONAL_ID, transactional_id)
    # A client that may write to any topic may do so idempotently (KIP-679).
    if access.allows(IDEMPOTENT_WRITE, filters=True) or access.allows_any(WRITE_TOPIC):
        return None
    return ClusterAuthorizationError(
        "An idempotent producer needs WRITE on a topic or IDEMPOTENT_WRITE on the cluster."
    )
