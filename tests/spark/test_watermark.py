"""Where partitions end, as a thread keeps it up to date: what is asked when, over brokers that are made up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from kclient.errors import KafkaTimeoutError, UnknownTopicOrPartitionError
from kclient.spark import watermark as module
from kclient.spark.errors import SourceError
from kclient.spark.offsets import Offsets
from kclient.spark.options import ReadOptions
from kclient.spark.watermark import DISCOVERY, FRESH, PAUSE, Ends, Watermark
from kclient.types import PartitionInfo, TopicPartition
from tests.spark.conftest import Clock
from tests.support.patience import ANSWER
from tests.support.waiting import wait_until

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class FakeEnds:
    """Returns the results of the test; each look-up passes the gate, and closes it if only one may.

    A look is before the gate, or over: none is on its way through it while the test does something.
    """

    def __init__(self) -> None:
        self.answer: Offsets | Exception = {A: 1}
        self.only_one = False
        self.begun = 0
        self.looks = 0
        self.closed = threading.Event()
        self._is_open = True
        self._turn = threading.Condition()

    def look(self) -> Offsets:
        with self._turn:
            self.begun += 1
            self._turn.notify_all()
            assert self._turn.wait_for(lambda: self._is_open, 20)
            self._is_open = not self.only_one
            self.looks += 1
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

    def stop_in_a_look(self) -> None:
        """Close the gate, and wait until a look-up waits at it."""
        with self._turn:
            self._is_open = False
            assert self._turn.wait_for(lambda: self.begun > self.looks, 20)

    def shut(self) -> None:
        """Close the gate."""
        with self._turn:
            self._is_open = False

    def let_pass(self) -> None:
        with self._turn:
            self._is_open = True
            self._turn.notify_all()

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
def open_watermark(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], tuple[FakeEnds, Watermark]]]:
    monkeypatch.setattr(module, "QUICK", 0.0005)
    monkeypatch.setattr(module, "SLOW", 0.0005)
    opened: list[tuple[FakeEnds, Watermark]] = []

    def make() -> tuple[FakeEnds, Watermark]:
        ends = FakeEnds()
        opened.append((ends, Watermark(ends, clock)))  # type: ignore[arg-type]
        return opened[-1]

    yield make
    for ends, watermark in opened:
        watermark.stop()
        ends.only_one = False
        ends.let_pass()


@pytest.fixture
def ask() -> Iterator[Callable[[Watermark], Future[Offsets]]]:
    """Asks in another thread."""
    with ThreadPoolExecutor(2) as threads:
        yield lambda watermark: threads.submit(watermark.latest)


def test_the_first_question_waits_for_a_look(open_watermark: Any) -> None:
    ends, watermark = open_watermark()
    assert watermark.known() is None
    assert watermark.latest() == {A: 1}
    assert ends.looks >= 1


def test_while_a_look_is_under_way_the_last_answer_serves(open_watermark: Any) -> None:
    ends, watermark = open_watermark()
    watermark.latest()
    ends.stop_in_a_look()
    ends.answer = {A: 2}
    assert watermark.latest() == {A: 1}
    ends.let_pass()
    wait_until(lambda: watermark.latest() == {A: 2})
    assert watermark.known() == {A: 2}


def test_who_finds_an_old_answer_waits_for_a_look_that_begins_after_the_question(
    open_watermark: Any, ask: Any, clock: Clock
) -> None:
    ends, watermark = open_watermark()
    watermark.latest()
    ends.stop_in_a_look()
    clock.now += FRESH + 0.01
    answer = ask(watermark)
    wait_until(lambda: watermark._waiting)
    assert not answer.done()
    ends.answer = {A: 3}
    begun = ends.begun
    ends.let_pass()
    assert answer.result(20) == {A: 3}
    # The one that was under way when the question came told nothing of what was written since.
    assert ends.looks > begun


def test_who_asks_after_a_pause_waits_for_a_look_unless_a_recent_answer_will_do(
    open_watermark: Any, ask: Any, clock: Clock
) -> None:
    ends, watermark = open_watermark()
    watermark.latest()
    ends.stop_in_a_look()
    ends.answer = {A: 2}
    clock.now += PAUSE + 0.01
    assert watermark.recent() == {A: 1}
    answer = ask(watermark)
    wait_until(lambda: watermark._waiting)
    ends.let_pass()
    assert answer.result(20) == {A: 2}


def test_it_rests_when_nobody_asks(open_watermark: Any, clock: Clock) -> None:
    resting, forgotten = open_watermark()
    forgotten.latest()
    clock.now += PAUSE + 0.01
    busy, asked = open_watermark()
    looks = resting.looks
    wait_until(lambda: asked.latest() and busy.looks >= 50)
    assert resting.looks <= looks + 1
    assert forgotten.latest() == {A: 1}
    assert resting.looks > looks


def test_a_failure_is_raised_and_the_next_question_looks_again(open_watermark: Any, ask: Any, clock: Clock) -> None:
    ends, watermark = open_watermark()
    ends.answer = KafkaTimeoutError("nobody is there")
    with pytest.raises(KafkaTimeoutError, match="nobody is there"):
        watermark.latest()
    ends.stop_in_a_look()
    ends.answer = {A: 4}
    clock.now += FRESH + 0.01
    answer = ask(watermark)
    wait_until(lambda: watermark._waiting)
    ends.let_pass()
    assert answer.result(20) == {A: 4}


def test_who_asks_while_a_look_is_under_way_that_fails_waits_for_no_other(
    open_watermark: Any, ask: Any, clock: Clock
) -> None:
    ends, watermark = open_watermark()
    watermark.latest()
    ends.stop_in_a_look()
    clock.now += FRESH + 0.01
    answer = ask(watermark)
    wait_until(lambda: watermark._waiting)
    ends.answer = KafkaTimeoutError("nobody is there")
    ends.only_one = True
    clock.now += 60
    ends.let_pass()
    with pytest.raises(KafkaTimeoutError, match="nobody is there"):
        answer.result(10)


def test_stop_ends_the_thread_and_who_waits(open_watermark: Any, ask: Any) -> None:
    ends, watermark = open_watermark()
    ends.shut()
    answer = ask(watermark)
    wait_until(lambda: ends.begun)
    watermark.stop()
    with pytest.raises(SourceError, match="stopped"):
        answer.result(20)
    assert not ends.closed.is_set()
    ends.let_pass()
    assert ends.closed.wait(ANSWER)


# -- what a look asks


class FakeConsumer:
    """A topic whose partitions come and go."""

    def __init__(self) -> None:
        self.topics: dict[str, list[int]] = {"t": [0]}
        self.asked: list[str] = []
        self.deleted: Exception = UnknownTopicOrPartitionError(topic="t", partition=1)
        self.unlisted = 0
        """How often a broker is asked for a topic that does not know of it."""

    def pause(self, seconds: float) -> None:
        self.asked.append(f"pause {seconds:g}")

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        self.asked.append("partitions")
        if self.unlisted:
            self.unlisted -= 1
            raise UnknownTopicOrPartitionError(topic=topic)
        if topic not in self.topics:
            raise UnknownTopicOrPartitionError(topic=topic)
        return [PartitionInfo(topic, number, 0, 0, (0,), (0,)) for number in self.topics[topic]]

    def end_offsets(self, partitions: list[TopicPartition], timeout: float | None = None) -> Offsets:
        self.asked.append("ends")
        for tp in partitions:
            if tp.partition not in self.topics.get(tp.topic, []):
                raise self.deleted
        return dict.fromkeys(partitions, 7)

    def close(self, timeout: float) -> None:
        self.asked.append("close")


def make_ends(consumer: FakeConsumer, clock: Clock, options: dict[str, str]) -> Ends:
    parsed = ReadOptions.parse({"kafka.bootstrap.servers": "k:1", **options}).for_stream()
    return Ends(parsed, lambda _: consumer, clock, consumer.pause)  # type: ignore[arg-type, return-value]


def test_partitions_are_listed_at_longer_intervals_than_ends(clock: Clock) -> None:
    consumer = FakeConsumer()
    ends = make_ends(consumer, clock, {"subscribe": "t"})
    for _ in range(3):
        assert ends.look() == {A: 7}
    assert consumer.asked == ["partitions", "ends", "ends", "ends"]
    consumer.topics["t"] = [0, 1]
    clock.now += DISCOVERY
    assert ends.look() == {A: 7, B: 7}
    ends.close()
    assert consumer.asked[-1] == "close"


@pytest.mark.parametrize("error", [UnknownTopicOrPartitionError(topic="t", partition=1), KafkaTimeoutError("late")])
def test_partitions_are_listed_again_where_one_seems_to_be_gone(clock: Clock, error: Exception) -> None:
    consumer = FakeConsumer()
    consumer.topics["t"] = [0, 1]
    consumer.deleted = error
    ends = make_ends(consumer, clock, {"subscribe": "t"})
    assert ends.look() == {A: 7, B: 7}
    consumer.topics["t"] = [0]
    assert ends.look() == {A: 7}


@pytest.mark.parametrize("option", [{"subscribe": "t,u"}, {"assign": '{"t": [0, 1], "u": [0]}'}])
def test_what_is_deleted_is_an_error_unless_loss_is_none(clock: Clock, option: dict[str, str]) -> None:
    consumer = FakeConsumer()
    consumer.topics = {"t": [0, 1], "u": [0]}
    strict = make_ends(consumer, clock, option)
    lenient = make_ends(consumer, clock, {**option, "failOnDataLoss": "false"})
    assert strict.look().keys() == lenient.look().keys() == {A, B, TopicPartition("u", 0)}
    del consumer.topics["u"]
    with pytest.raises(UnknownTopicOrPartitionError):
        strict.look()
    assert lenient.look().keys() == {A, B}


@pytest.mark.parametrize("option", [{"subscribe": "t"}, {"assign": '{"t": [0]}'}])
def test_a_topic_that_a_broker_does_not_know_of_is_looked_for_again(clock: Clock, option: dict[str, str]) -> None:
    consumer = FakeConsumer()
    ends = make_ends(consumer, clock, option)
    consumer.unlisted = 2
    assert ends.look() == {A: 7}
    assert consumer.asked == ["partitions", "pause 1", "partitions", "pause 1", "partitions", "ends"]
