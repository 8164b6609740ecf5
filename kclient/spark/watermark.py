"""Where the partitions of a stream end, kept up to date by a thread, so that whoever asks seldom waits.

An idle query asks for the latest offsets every 10 ms: an answer from memory costs it nothing. While it asks, the thread
looks with one request to each broker at intervals; when it asks no more, the thread rests. A question that comes after
a while, as after a micro-batch, waits for one look: it takes no longer than a record that it finds would have had to
wait for the next micro-batch. So a query that is triggered once a minute costs one look a minute, and does not go by
ends that are a minute old. Leaves out how much of it a micro-batch takes (`micro_batches`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from kclient.errors import KafkaTimeoutError, UnknownTopicOrPartitionError
from kclient.spark.clock import monotonic, sleep
from kclient.spark.consumers import open_consumer
from kclient.spark.errors import SourceError
from kclient.spark.ranges import partitions_after_all

if TYPE_CHECKING:
    from kclient import Consumer
    from kclient.spark.offsets import Offsets
    from kclient.spark.options import ReadOptions
    from kclient.types import TopicPartition

QUICK = 0.02
"""Seconds between two looks while records come."""

SLOW = 0.1
"""Seconds between two looks when none have come for a while."""

SLOWER = 1.1
"""What the time between two looks is multiplied by after one that found nothing new."""

FRESH = 0.25
"""Seconds for which an answer serves; whoever finds it older waits for the next."""

PAUSE = 0.05
"""Seconds without a question after which the thread rests, and an answer has to be new: an idle query asks sooner."""

DISCOVERY = 1.0
"""Seconds after which partitions are listed anew."""

SOON = 3.0
"""Seconds after which a look without an answer lists them anew, too."""


class Ends:
    """Looks up where the partitions that are read end, and which these are.

    Parameters:
        options: what is read.
        make: opens the consumer that asks.
        clock: seconds that grow.
        pause: waits for so many of them.
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
        """The ends as they are now.

        Raises:
            UnknownTopicOrPartitionError: a topic is gone, and that is an error (`fail_on_data_loss`).
            KafkaError: the brokers cannot tell.
        """
        if self._consumer is None:
            self._consumer = self._make(self._options)
        if self._listed_at is None or self._clock() - self._listed_at >= DISCOVERY:
            self._list(self._consumer)
        try:
            return self._consumer.end_offsets(self._partitions, timeout=SOON)
        except (UnknownTopicOrPartitionError, KafkaTimeoutError):
            # Perhaps one was deleted since they were listed, and for long the client takes it for one whose news is
            # late: which there are is for the list to say.
            self._list(self._consumer)
            return self._consumer.end_offsets(self._partitions)

    def _list(self, consumer: Consumer) -> None:
        now = self._clock()
        missing_ok = not self._options.fail_on_data_loss
        self._partitions = partitions_after_all(consumer, self._options, missing_ok=missing_ok, pause=self._pause)
        self._listed_at = now

    def close(self) -> None:
        """Close the consumer."""
        if self._consumer is not None:
            self._consumer.close(timeout=0)
            self._consumer = None


class Watermark:
    """The last answer of `Ends`, and the thread that asks for the next.

    Parameters:
        ends: what the thread asks; nobody else uses it.
        clock: seconds that grow.
    """

    def __init__(self, ends: Ends, clock: Callable[[], float] = monotonic) -> None:
        self._ends = ends
        self._clock = clock
        self._news = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._asked = 0.0
        self._waiting = 0
        self._found: Offsets | None = None
        self._error: Exception | None = None
        self._began = 0.0
        """When the look began that the last answer, or error, comes from; what was written before is in it."""
        self._failed = -1.0
        """When the last look failed."""
        self._interval = QUICK

    def latest(self) -> Offsets:
        """The ends as they are now; after a question that was asked just before, as they were at most FRESH ago.

        Raises:
            KafkaError: the look failed; the next question looks again.
            SourceError: it was stopped meanwhile.
        """
        with self._news:
            now = self._clock()
            paused = now - self._asked >= PAUSE
            self._asked = now
            return self._answer(now, anew=paused)

    def recent(self) -> Offsets:
        """The ends, as they were at most FRESH seconds ago.

        Raises:
            KafkaError: the look failed; the next question looks again.
            SourceError: it was stopped meanwhile.
        """
        with self._news:
            return self._answer(self._clock(), anew=False)

    def _answer(self, now: float, *, anew: bool) -> Offsets:
        self._start()
        if anew or self._found is None or now - self._began > FRESH:
            self._wait_for_look_after(now)
        if self._error is not None:
            raise self._error
        assert self._found is not None
        return self._found

    def known(self) -> Offsets | None:
        """What was found last, however old; None before the first look."""
        return self._found

    def stop(self) -> None:
        """End the thread; it may take as long as the look that is under way, and nobody waits for that."""
        with self._news:
            self._stopped = True
            self._news.notify_all()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="kclient-watermark", daemon=True)
            self._thread.start()

    def _wait_for_look_after(self, moment: float) -> None:
        # One that is under way may be out of date if it succeeds. If it fails, Kafka is down as far as one can tell,
        # and the next one would take as long again to say so.
        def done() -> bool:
            return max(self._began, self._failed) >= moment

        self._waiting += 1
        self._news.notify_all()
        try:
            self._news.wait_for(lambda: self._stopped or done())
        finally:
            self._waiting -= 1
        if not done():
            raise SourceError("the stream was stopped while it asked Kafka where partitions end")

    def _run(self) -> None:
        try:
            while self._rest():
                self._look()
        finally:
            self._ends.close()

    def _rest(self) -> bool:
        """Wait until the next look is due; False when there is to be none."""
        with self._news:
            self._news.wait_for(self._urgent, self._interval)
            self._news.wait_for(lambda: self._urgent() or self._clock() - self._asked < PAUSE)
            return not self._stopped

    def _urgent(self) -> bool:
        return self._stopped or self._waiting > 0

    def _look(self) -> None:
        began, found, error = self._clock(), None, None
        try:
            found = self._ends.look()
        except Exception as raised:  # noqa: BLE001 - raised from the next question
            error = raised
        with self._news:
            self._interval = QUICK if found != self._found else min(self._interval * SLOWER, SLOW)
            self._began, self._found, self._error = began, found, error
            if error is not None:
                self._failed = self._clock()
            self._news.notify_all()
