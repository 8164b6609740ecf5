"""Requests the producer's id and epoch until a broker returns them.

Elsewhere: their purpose (`idempotence`).
"""

from __future__ import annotations

from collections.abc import Callable

from kclient.errors import ClosedError, ClusterAuthorizationError, KafkaError, error_from_code
from kclient.net.backoff import Backoff
from kclient.net.manager import ANY_NODE, NEVER, Request
from kclient.producer.idempotence import Identity, IdentityEvent, IdentityState
from kclient.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NO_TRANSACTION_TIMEOUT = 0x7FFFFFFF


class ProducerIdRequester:
    """The request for an id, sent whenever the identity needs one.

    Parameters:
        on_refused: receives the error if an id can never be assigned.
    """

    def __init__(self, identity: Identity, backoff: Backoff, on_refused: Callable[[KafkaError], None]) -> None:
        self._identity = identity
        self._backoff = backoff
        self._on_refused = on_refused
        self._failures = 0
        self._retry_at = 0.0

    def poll(self, requests: list[Request], now: float) -> float:
        """Add the request if it is due; return when to check again."""
        if not self._identity.wanted:
            return NEVER
        if self._retry_at > now:
            return self._retry_at
        self._identity.change(IdentityEvent.ASK)
        requests.append(Request(ANY_NODE, InitProducerIdRequest, self._build, self._answered, self._failed))
        return NEVER

    def _build(self, version: int) -> InitProducerIdRequest:
        return InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=NO_TRANSACTION_TIMEOUT)

    def _answered(self, response: InitProducerIdResponse, now: float) -> None:
        if response.error_code:
            self._failed(_error(response.error_code), now)
            return
        self._failures = 0
        if self._identity.state is IdentityState.ASKING:
            self._identity.received(response.producer_id, response.producer_epoch)

    def _failed(self, error: KafkaError, now: float) -> None:
        if self._identity.state is not IdentityState.ASKING or isinstance(error, ClosedError):
            return
        if not error.retriable:
            self._on_refused(error)
            return
        self._failures += 1
        self._retry_at = now + self._backoff.seconds(self._failures)
        self._identity.change(IdentityEvent.REFUSED)


def _error(code: int) -> KafkaError:
    if code != ClusterAuthorizationError.code:
        return error_from_code(code, api="InitProducerId")
    # The broker names the cluster, but a producer seldom needs a permission on it (KIP-679).
    return ClusterAuthorizationError(
        "An idempotent producer needs an ACL for WRITE on any topic, or for IDEMPOTENT_WRITE on the cluster.",
        api="InitProducerId",
    )
