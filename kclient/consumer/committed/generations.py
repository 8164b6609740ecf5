"""The generation in which offsets are committed, as committed offsets see the group's member.

Elsewhere: the members (`kclient.consumer.group`).
"""

from __future__ import annotations

from typing import Protocol

from kclient.consumer.group.generation import Generation
from kclient.errors import CommitFailedError, KafkaError, RebalanceInProgressError


class GenerationSource(Protocol):
    """The source of the generation that offsets are committed in."""

    @property
    def rebalancing(self) -> bool: ...

    def generation_now(self) -> Generation | None: ...

    def last_generation(self) -> Generation | None: ...

    def on_refused(self, generation: Generation, error: KafkaError, now: float) -> None: ...


def not_a_member(member: GenerationSource, cause: KafkaError | None = None) -> KafkaError:
    """Return the error of a commit whose generation has ended (any thread)."""
    error: KafkaError
    if member.rebalancing or member.generation_now() is not None:
        error = RebalanceInProgressError(
            "the offsets were not committed, because the group is rebalancing: poll() to join, then commit "
            "what is still assigned",
            api="OffsetCommit",
        )
    else:
        reason = "the consumer is currently not a member of its group" if cause is None else str(cause)
        error = CommitFailedError(reason, api="OffsetCommit")
    error.__cause__ = cause
    return error
