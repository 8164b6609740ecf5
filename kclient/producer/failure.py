"""The fatal error of a producer, shared by the parts that detect it and those that act on it."""

from __future__ import annotations

from collections.abc import Callable

from kclient.errors import KafkaError
from kclient.producer.idempotence import Identity, IdentityEvent, IdentityState


class ProducerFailure:
    """The fatal error of one producer (network thread).

    The first error counts. Waiting batches fail at the sender's next poll, which follows every event.

    Attributes:
        error: the fatal error; None without one.

    Parameters:
        identity: is not assigned a producer id after a failure.
        on_fatal: called once, with the error.
    """

    def __init__(self, identity: Identity, on_fatal: Callable[[KafkaError], None]) -> None:
        self.error: KafkaError | None = None
        self._identity = identity
        self._on_fatal = on_fatal

    def stop(self, error: KafkaError) -> None:
        """Record the fatal error."""
        if self.error is not None:
            return
        self.error = error
        if self._identity.state is not IdentityState.FAILED:
            self._identity.change(IdentityEvent.FAIL)
        self._on_fatal(error)
