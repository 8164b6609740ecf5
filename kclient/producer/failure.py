"""The reason why a producer cannot go on, shared by the parts that find it out and those that act on it."""

from __future__ import annotations

from collections.abc import Callable

from kclient.errors import KafkaError
from kclient.producer.idempotence import Identity, IdentityEvent, IdentityState


class ProducerFailure:
    """The fatal error of one producer (network thread).

    The first error counts. What waits to be sent fails when the sender is polled next, which is after every event.

    Attributes:
        error: why the producer cannot go on; None while it can.

    Parameters:
        identity: is not assigned a producer id after a failure.
        on_fatal: called once, with the error.
    """

    def __init__(self, identity: Identity, on_fatal: Callable[[KafkaError], None]) -> None:
        self.error: KafkaError | None = None
        self._identity = identity
        self._on_fatal = on_fatal

    def stop(self, error: KafkaError) -> None:
        """Record why the producer cannot go on."""
        if self.error is not None:
            return
        self.error = error
        if self._identity.state is not IdentityState.FAILED:
            self._identity.change(IdentityEvent.FAIL)
        self._on_fatal(error)
