"""The end offsets of a stream's partitions, kept up to date by a thread, so that a request rarely waits.

An idle query requests the latest offsets every 10 ms, which the cache answers. While it does, the thread looks them up
at intervals, with one request per broker; otherwise the thread is idle. A request after a pause, as after a
micro-batch, waits for one look-up, which takes no longer than a new record would have to wait for the next micro-batch.
So a query that is triggered once a minute costs one look-up a minute, and does not use end offsets that are a minute
old. Elsewhere: the size of a micro-batch (`micro_batches`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from kclient.errors import KafkaTimeoutError, UnknownTopicOrPartitionError
from kclient.spark.clock import monotonic, sleep
from kclient.spark.consumers import open_consumer
from kclient.spark.errors import SourceError
from kclient.spark.ranges import partitions_in_several_listings

if TYPE_CHECKING:
    from kclient import Consumer
    from kclient.spark.offsets import Offsets
    from kclient.spark.options import ReadOptions
    from kclient.types import TopicPartition

QUICK = 0.02
"""The seconds between look-ups while records arrive."""

SLOW = 0.1
"""The seconds between look-ups when none have arrived for a while."""

SLOWER = 1.1
"""The factor for the interval after each look-up without new records."""

FRESH = 0.25
"""The seconds for which a result is used; a request that finds an older one waits for the next."""

PAUSE = 0.05
"""The seconds without a request after which the thread pauses, and a result must be new; an idle query requests
sooner.
"""

DISCOVERY = 1.0
"""The seconds after which partitions are listed again."""

SOON = 3.0
"""The seconds after which partitions are also listed again if a look-up gets no response."""


class Ends:
    """Looks up the partitions of a read and their end offsets.

    Parameters:
        options: the options of the read.
        make: opens the consumer for the requests.
        clock: seconds of a monotonic clock.
        pause: waits for a number of seconds.
    """

    def __init__(
        self,
        options: ReadOptions,
        make: Callable[[ReadOptions], Consumer] = open_consumer,
        clock: Callable[[], float] = monotonic,
        pause: Callable[[float], None] = sleep,
    ) -> None:
        self._options = options
        self._make = make
        self._clock = clock
        self._pause = pause
        self._consumer: Consumer | None = None
        self._partitions: list[TopicPartition] = []
        self._listed_at: float | None = None

    def look(self) -> Offsets:
        """Return the current end offsets.

        Raises:
            UnknownTopicOrPartitionError: a topic no longer exists, and that is an error (`fail_on_data_loss`).
            KafkaError: the request failed.
        """
        if self._consumer is None:
            self._consumer = self._make(self._options)
        if self._listed_at is None or self._clock() - self._listed_at >= DISCOVERY:
            self._list(self._consumer)
        try:
            return self._consumer.end_offsets(self._partitions, timeout=SOON)
        except (UnknownTopicOrPartitionError, KafkaTimeoutError):
            # A topic may have been deleted since it was listed; the client would retry for long, so list them again.
            self._list(self._consumer)
            return self._consumer.end_offsets(self._partitions)

    def _list(self, consumer: Consumer) -> None:
        now = self._clock()
        missing_ok = not self._options.fail_on_data_loss
        self._partitions = partitions_in_several_listings(
            consumer, self._options, missing_ok=missing_ok, pause=self._pause
        )
        self._listed_at = now

    def close(self) -> None:
        """Close the consumer."""
        if self._consumer is not None:
            self._consumer.close(timeout=0)
            self._consumer = None


class Watermark:
    """The last result of `Ends`, and the thread that looks up the next one.

    Parameters:
        ends: looks up the offsets; only the thread uses it.
        clock: seconds of a monotonic clock.
    """

    def __init__(self, ends: Ends, clock: Callable[[], float] = monotonic) -> None:
        self._ends = ends
        self._clock = clock
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._asked = 0.0
        self._waiting = 0
        self._found: Offsets | None = None
        self._error: Exception | None = None
        self._began = 0.0
        """When the look-up of the last result or error began; it covers everything written before."""
        self._failed = -1.0
        """When the last look-up failed."""
        self._interval = QUICK

    def latest(self) -> Offsets:
        """Return the current end offsets; right after another request, those of at most FRESH seconds ago.

        Raises:
            KafkaError: the look-up failed; the next request repeats it.
            SourceError: it was stopped in the meantime.
        """
        with self._changed:
            now = self._clock()
            paused = now - self._asked >= PAUSE
            self._asked = now
            return self._answer(now, must_be_new=paused)

    def recent(self) -> Offsets:
        """Return the end offsets of at most FRESH seconds ago.

        Raises:
            KafkaError: the look-up failed; the next request repeats it.
            SourceError: it was stopped in the meantime.
        """
        with self._changed:
            return self._answer(self._clock(), must_be_new=False)

    def _answer(self, now: float, *, must_be_new: bool) -> Offsets:
        self._start()
        if must_be_new or self._found is None or now - self._began > FRESH:
            self._wait_for_look_after(now)
        if self._error is not None:
            raise self._error
        assert self._found is not None
        return self._found

    def known(self) -> Offsets | None:
        """Return the last result, however old; None before the first one."""
        return self._found

    def stop(self) -> None:
        """Stop the thread, without waiting for a look-up in progress."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="kclient-watermark", daemon=True)
            self._thread.start()

    def _wait_for_look_after(self, moment: float) -> None:
        # A look-up in progress may be outdated if it succeeds. If it fails, Kafka is unreachable as far as known, and
        # the next one would take as long to fail.
        def done() -> bool:
            return max(self._began, self._failed) >= moment

        self._waiting += 1
        self._changed.notify_all()
        try:
            self._changed.wait_for(lambda: self._stopped or done())
        finally:
            self._waiting -= 1
        if not done():
            raise SourceError("the stream was stopped while it looked up the ends of partitions")

    def _run(self) -> None:
        try:
            while self._rest():
                self._look()
        finally:
            self._ends.close()

    def _rest(self) -> bool:
        """Wait until the next look-up is due; return False if there will be none."""
        with self._changed:
            self._changed.wait_for(self._urgent, self._interval)
            self._changed.wait_for(lambda: self._urgent() or self._clock() - self._asked < PAUSE)
            return not self._stopped

    def _urgent(self) -> bool:
        return self._stopped or self._waiting > 0

    def _look(self) -> None:
        began, found, error = self._clock(), None, None
        try:
            found = self._ends.look()
        except Exception as raised:  # noqa: BLE001 - raised from the next question
            error = raised
        with self._changed:
            self._interval = QUICK if found != self._found else min(self._interval * SLOWER, SLOW)
            self._began, self._found, self._error = began, found, error
            if error is not None:
                self._failed = self._clock()
            self._changed.notify_all()
