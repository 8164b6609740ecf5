"""What a consumer with isolation_level="read_committed" is given, where it stands, and what is not promised to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kclient import Admin, Consumer, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from kclient.admin import OffsetSpec
from refbroker.testing import RefBroker
from tests.support import clock
from tests.support.patience import ANSWER
from tests.support.reading import read_up_to
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kafka

AHEAD_MS = 600_000
"""Of the brokers' time, which the markers have: markers are found by time as well."""
LEVELS = ("read_uncommitted", "read_committed")


class Log:
    """A topic of two partitions, written to by a transactional producer and by a plain one."""

    def __init__(
        self, bootstrap_servers: str, topic: str, admin: Admin, transactional: Producer, plain: Producer
    ) -> None:
        self.admin = admin
        self.bootstrap_servers = bootstrap_servers
        self.topic = topic
        self.transactional = transactional
        self.plain = plain
        self.tp = TopicPartition(topic, 0)
        self.other = TopicPartition(topic, 1)
        self.first_time = clock.time_ms() + AHEAD_MS

    def send(self, *values: bytes, producer: Producer | None = None, partition: int = 0) -> None:
        """Append values, each its own key and a batch by itself, a millisecond after the one before."""
        send = (producer or self.transactional).send
        for number, value in enumerate(values):
            send(self.topic, value, key=value, partition=partition, timestamp=self.first_time + number).result(ANSWER)

    def commit(self, *values: bytes) -> None:
        """A transaction of these values, or the end of the one that is open."""
        if values:
            self.transactional.begin_transaction()
            self.send(*values)
        self.transactional.commit_transaction()
        self._wait_for_markers()

    def abort(self, *values: bytes) -> None:
        """The same, aborted."""
        if values:
            self.transactional.begin_transaction()
            self.send(*values)
        self.transactional.abort_transaction()
        self._wait_for_markers()

    def _wait_for_markers(self) -> None:
        """Kafka answers before the markers are written."""
        latest = dict.fromkeys((self.tp, self.other), OffsetSpec.LATEST)

        def ends(level: str) -> dict[TopicPartition, int]:
            found = self.admin.list_offsets(latest, isolation_level=level)
            return {tp: end.offset for tp, end in found.items()}

        wait_until(lambda: ends("read_committed") == ends("read_uncommitted"))

    def reader(self, level: str = "read_committed", **options: Any) -> Consumer:
        options = {"bootstrap_servers": self.bootstrap_servers, "auto_offset_reset": "earliest", **options}
        consumer = Consumer(isolation_level=level, **options)
        consumer.assign([self.tp])
        return consumer


def rest(consumer: Consumer) -> list[tuple[int, bytes | None]]:
    """The records from the position up to the end, by offset."""
    ends = consumer.end_offsets(consumer.assignment())
    return [(record.offset, record.value) for record in read_up_to(consumer, ends)]


@pytest.fixture
def log(bootstrap_servers: str, topic: str) -> Iterator[Log]:
    """An empty log."""
    servers: dict[str, Any] = {"bootstrap_servers": bootstrap_servers}
    with (
        Admin(**servers) as admin,
        Producer(**servers, transactional_id=f"id-{topic}") as transactional,
        Producer(**servers) as plain,
    ):
        admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1)])
        transactional.init_transactions()
        yield Log(bootstrap_servers, topic, admin, transactional, plain)


def test_aborted_records_and_control_batches_are_never_returned(log: Log) -> None:
    log.commit(b"a", b"b")  # 0, 1, and the marker at 2
    log.abort(b"c", b"d")  # 3, 4, and the marker at 5
    log.send(b"e", producer=log.plain)
    with log.reader() as committed, log.reader("read_uncommitted") as uncommitted:
        assert rest(committed) == [(0, b"a"), (1, b"b"), (6, b"e")]
        assert rest(uncommitted) == [(0, b"a"), (1, b"b"), (3, b"c"), (4, b"d"), (6, b"e")]


@pytest.mark.parametrize("level", LEVELS)
def test_the_position_passes_gaps_at_the_end_of_the_log(log: Log, level: str) -> None:
    log.commit(b"a")
    log.abort(b"b")  # nothing of it, nor its marker, is a record
    with log.reader(level) as consumer:
        assert [offset for offset, _ in rest(consumer)] == ([0] if level == "read_committed" else [0, 2])
        assert consumer.position(log.tp) == consumer.end_offsets([log.tp])[log.tp] == 4
        assert consumer.current_lag(log.tp) == 0
        log.send(b"c", producer=log.plain)
        assert rest(consumer) == [(4, b"c")]


def test_nothing_behind_the_first_open_transaction_is_returned_until_it_ends(log: Log) -> None:
    log.send(b"a", producer=log.plain)
    log.transactional.begin_transaction()
    log.send(b"b")
    log.send(b"c", producer=log.plain)
    with log.reader() as committed, log.reader("read_uncommitted") as uncommitted:
        assert [consumer.end_offsets([log.tp])[log.tp] for consumer in (committed, uncommitted)] == [1, 3]
        assert rest(committed) == [(0, b"a")]
        assert len(rest(uncommitted)) == 3
        log.commit()
        assert rest(committed) == [(1, b"b"), (2, b"c")]


def test_lag_and_health_end_at_the_last_stable_offset(log: Log) -> None:
    group = f"group-{log.topic}"
    log.send(b"a", producer=log.plain)
    log.transactional.begin_transaction()
    log.send(b"b")
    admin = log.admin
    with log.reader(group_id=group) as consumer:
        assert rest(consumer) == [(0, b"a")]
        consumer.commit()
        wait_until(lambda: consumer.current_lag(log.tp) == 0)
        health = consumer.health().partitions[log.tp]
        assert (health.position, health.end_offset, health.lag) == (1, 1, 0)
        lags = [admin.group_lag(group, isolation_level=level)[group][log.tp].lag for level in LEVELS]
        assert lags == [1, 0], "by the high watermark, and by the last stable offset"
        latest = {log.tp: OffsetSpec.LATEST}
        ends = [admin.list_offsets(latest, isolation_level=level)[log.tp].offset for level in LEVELS]
        assert ends == [2, 1]
        log.abort()


def test_the_end_that_is_sought_is_the_last_stable_offset(log: Log) -> None:
    log.send(b"a", producer=log.plain)
    log.transactional.begin_transaction()
    log.send(b"b")
    with log.reader() as committed, log.reader("read_uncommitted") as uncommitted:
        for consumer in (committed, uncommitted):
            consumer.seek_to_end()
        assert [consumer.position(log.tp) for consumer in (committed, uncommitted)] == [1, 2]
        log.commit()
        log.send(b"c", producer=log.plain)
        assert rest(committed) == [(1, b"b"), (3, b"c")]
        assert rest(uncommitted) == [(3, b"c")]


def test_look_ups_by_time_end_at_the_last_stable_offset_and_find_aborted_records(log: Log) -> None:
    log.abort(b"a", b"b")  # at the first time and one millisecond after it
    log.transactional.begin_transaction()
    log.send(b"c", b"d", b"e")  # the last one two milliseconds after it
    with log.reader() as committed, log.reader("read_uncommitted") as uncommitted:

        def look_up(consumer: Consumer, time: int) -> int | None:
            found = consumer.offsets_for_times({log.tp: time})[log.tp]
            return None if found is None else found.offset

        assert [look_up(consumer, log.first_time + 1) for consumer in (committed, uncommitted)] == [1, 1]
        assert [look_up(consumer, log.first_time + 2) for consumer in (committed, uncommitted)] == [None, 5]
        log.commit()
        assert look_up(committed, log.first_time + 2) == 5


# -- what is not promised


def test_a_seek_into_a_transaction_shows_the_rest_of_it(log: Log) -> None:
    log.commit(b"a", b"b", b"c")
    with log.reader() as consumer:
        consumer.seek(log.tp, 1)
        assert rest(consumer) == [(1, b"b"), (2, b"c")]


def test_a_seek_into_an_aborted_transaction_shows_nothing_of_it(log: Log) -> None:
    log.abort(b"a", b"b", b"c")
    log.commit(b"d")
    with log.reader() as consumer:
        consumer.seek(log.tp, OffsetAndMetadata(1))
        assert rest(consumer) == [(4, b"d")]


def test_who_reads_some_of_the_partitions_sees_that_part_of_a_transaction(log: Log) -> None:
    log.transactional.begin_transaction()
    log.send(b"a")
    log.send(b"b", partition=1)
    log.commit()
    with log.reader() as consumer:
        assert rest(consumer) == [(0, b"a")]
        consumer.assign([log.other])
        assert rest(consumer) == [(0, b"b")]


def test_records_that_were_deleted_are_missing_from_their_transaction(log: Log) -> None:
    log.commit(b"a", b"b", b"c")
    with log.reader() as consumer:
        log.admin.delete_records({log.tp: 2})
        assert rest(consumer) == [(2, b"c")]


@pytest.mark.refbroker_only
def test_a_value_that_was_replaced_is_missing_from_its_transaction_after_compaction(topic: str) -> None:
    compacted = {
        "log.cleanup.policy": "compact",
        "log.cleaner.backoff.ms": "5",
        "log.cleaner.min.cleanable.ratio": "0.01",
    }
    with (
        RefBroker(settings=compacted) as kafka,
        Producer(bootstrap_servers=kafka.bootstrap_servers, transactional_id="t") as producer,
    ):
        kafka.create_topic(topic, segment_bytes=1 << 20)
        tp = TopicPartition(topic, 0)
        producer.init_transactions()
        large = bytes(600_000)  # two of them fill a segment
        for keys, value in ((b"ab", b"old"), (b"a", b"new"), (b"x", large), (b"y", large)):
            with producer.transaction():
                for key in keys:
                    producer.send(topic, value, key=bytes([key]), partition=0)
        with Consumer(
            bootstrap_servers=kafka.bootstrap_servers, isolation_level="read_committed", auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([tp])

            def compaction_shows() -> bool:
                consumer.seek(tp, 0)
                return rest(consumer)[:2] == [(1, b"old"), (3, b"new")]

            wait_until(compaction_shows)
