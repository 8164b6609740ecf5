"""The interceptors of a consumer: they see the records that it returns and the committed offsets of its group.

An exception of an interceptor is logged and has no other effect. Elsewhere: where the callbacks of commits run
(`committed.callbacks`).

Not implemented: interceptors that replace records, as Java's may. The positions of a consumer follow its own records.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from kclient.consumer.records import Records
from kclient.records import ConsumerRecord, RecordChunk
from kclient.types import OffsetAndMetadata, TopicPartition

_log = logging.getLogger(__name__)


class ConsumerInterceptor(Protocol):
    """Sees the records that a consumer returns, and what is committed for its group (KIP-42).

    An exception of an interceptor is logged; the records are returned, and the offsets stay committed. Both methods are
    plain functions; one of them is optional.
    """

    def on_consume(self, records: Records) -> None:
        """See records before the application does, in the thread or task that asked for them.

        Parameters:
            records: what `poll` is about to return, never empty; in a loop over the consumer each record by itself,
                which makes the loop slower.
        """

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """See offsets that the group's coordinator has stored, by `commit`, `commit_async` or automatically.

        Called in a later call for records, `commit` or `close` of a `Consumer`, or in the event loop of an
        `AsyncConsumer`; before the callback of a `commit_async`. Offsets that a producer commits in a transaction are
        not shown.
        """


class Interceptors:
    """The interceptors of one consumer, in the order of its option."""

    def __init__(self, interceptors: Sequence[ConsumerInterceptor]) -> None:
        self._on_consume = [each for each in interceptors if hasattr(each, "on_consume")]
        self._on_commit = [each for each in interceptors if hasattr(each, "on_commit")]

    @property
    def see_records(self) -> bool:
        """Whether one of them has `on_consume`."""
        return bool(self._on_consume)

    @property
    def see_commits(self) -> bool:
        """Whether one of them has `on_commit`."""
        return bool(self._on_commit)

    def on_consume(self, records: Records) -> None:
        """Show records that are about to be returned."""
        for interceptor in self._on_consume:
            _call(interceptor.on_consume, records)

    def shown(self, chunk: RecordChunk) -> Iterator[ConsumerRecord]:
        """Iterate over a chunk of one record, which is shown only when it is returned."""
        for record in chunk:
            self.on_consume(Records([chunk]))
            yield record

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Show committed offsets."""
        for interceptor in self._on_commit:
            _call(interceptor.on_commit, offsets)


def _call(method: Callable[..., Any], argument: object) -> None:
    try:
        returned = method(argument)
    except Exception:  # noqa: BLE001 - user code; records are handed out and callbacks run nevertheless
        _log.exception("%r failed", method)
        return
    if inspect.iscoroutine(returned):
        returned.close()
        _log.error("%r returned a coroutine, which nothing awaits; it did not run", method)
