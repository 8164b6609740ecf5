"""The clock and the disk of a broker in the hands of a test."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable, Iterator

import pytest

from kclient import errors
from kclient.protocol.messages.produce import ProduceRequest
from kclient.records import BatchBuilder
from refbroker.testing import RefBroker, SimulatedDisk
from tests.support.patience import ANSWER
from tests.support.typed import reread
from tests.support.wire import Wire, fetch_request, produce_request, values

HOUR = 3600
NOW_MS = 1_700_000_000_000


@pytest.fixture
def kafka() -> Iterator[RefBroker]:
    with RefBroker(disk=SimulatedDisk(), log_retention_check_interval_ms=60_000) as kafka:
        kafka.clock.hold(at_ms=NOW_MS)
        yield kafka


def produce(kafka: RefBroker, *sent: bytes) -> list[int]:
    """The error codes of as many requests."""
    with Wire(kafka.bootstrap_servers) as wire:
        answers = [wire.ask(request_at(kafka, value), 9) for value in sent]
    return [answer.responses[0].partition_responses[0].error_code for answer in answers]


def request_at(kafka: RefBroker, value: bytes) -> ProduceRequest:
    builder = BatchBuilder()
    builder.append(kafka.clock.now_ms, None, value)
    request = produce_request("t", b"")
    request.topic_data[0].partition_data[0].records = bytes(builder.build())
    return request


def contents(kafka: RefBroker) -> list[bytes | None]:
    with Wire(kafka.bootstrap_servers) as wire:
        return values(wire.ask(fetch_request("t", kafka.log("t").log_start_offset), 11))


def test_time_is_paused_moves_and_continues(kafka: RefBroker) -> None:
    kafka.create_topic("t", message_timestamp_type="LogAppendTime")

    def appended_at() -> int:
        with Wire(kafka.bootstrap_servers) as wire:
            answer = wire.ask(produce_request("t", b"v"), 9)
        time_ms: int = answer.responses[0].partition_responses[0].log_append_time_ms
        return time_ms

    assert [appended_at(), appended_at()] == [NOW_MS, NOW_MS]
    kafka.clock.step(1.5)
    assert appended_at() == NOW_MS + 1500
    kafka.restart()
    assert (kafka.clock.is_held, appended_at()) == (True, NOW_MS + 1500)
    kafka.clock.run()
    assert not kafka.clock.is_held
    assert NOW_MS + 1500 <= appended_at() < NOW_MS + 1500 + 60_000
    kafka.clock.step(HOUR)
    assert appended_at() >= NOW_MS + HOUR * 1000


def test_a_step_returns_when_what_became_due_is_done(kafka: RefBroker) -> None:
    kafka.create_topic("t", retention_ms=HOUR * 1000)
    produce(kafka, b"old")
    kafka.clock.step(HOUR / 2)
    produce(kafka, b"new")
    assert contents(kafka) == [b"old", b"new"]
    kafka.clock.step(HOUR + 1)
    assert contents(kafka) == []
    assert kafka.log("t").log_start_offset == 2
    assert list((kafka.data_dir / "t-0").glob("*.deleted"))
    kafka.clock.step(120)
    assert not list((kafka.data_dir / "t-0").glob("*.deleted"))


def test_the_clock_can_be_set_before_the_broker_runs() -> None:
    kafka = RefBroker()
    kafka.clock.hold(at_ms=NOW_MS)
    kafka.clock.step(1)
    with kafka:
        assert kafka.clock.now_ms == NOW_MS + 1000


def test_times_that_no_record_could_have_are_refused(kafka: RefBroker) -> None:
    changes: list[Callable[[], object]] = [
        lambda: kafka.clock.hold(at_ms=-1),
        lambda: kafka.clock.hold(at_ms=2**63),
        lambda: kafka.clock.step(-HOUR * 24 * 365 * 60),
        lambda: kafka.clock.step(1e15),
    ]
    for change in changes:
        with pytest.raises(errors.ConfigError, match="1970 to 9999"):
            change()
    assert kafka.clock.now_ms == NOW_MS


def test_steps_from_many_threads_all_count(kafka: RefBroker) -> None:
    threads = [threading.Thread(target=lambda: [kafka.clock.step(1) for _ in range(10)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(ANSWER)
    assert kafka.clock.now_ms == NOW_MS + 80_000


def test_what_was_not_flushed_is_lost_with_the_power_and_nothing_else() -> None:
    disk = SimulatedDisk()
    with RefBroker(disk=disk) as kafka:
        kafka.create_topic("t", flush_messages=1)
        produce(kafka, b"flushed")
        kafka.create_topic("u")
        kafka.lose_power(seed=7)
        assert not kafka.is_running
        kafka.start()
        assert contents(kafka) == [b"flushed"]
        assert produce(kafka, b"more") == [0]
        assert kafka.disk is disk


def test_the_same_seed_loses_the_same() -> None:
    def survivors(seed: int) -> list[bytes | None]:
        with RefBroker(disk=SimulatedDisk()) as kafka:
            kafka.clock.hold(at_ms=NOW_MS)
            kafka.create_topic("t")
            kafka.restart()
            produce(kafka, *(b"%d" % number for number in range(20)))
            kafka.lose_power(seed)
            kafka.start()
            return contents(kafka)

    found = {seed: survivors(seed) for seed in range(6)}
    assert all(values == [b"%d" % number for number in range(len(values))] for values in found.values())
    assert len({len(values) for values in found.values()}) > 1
    assert survivors(3) == found[3]


def test_a_disk_that_fails_or_is_full_fails_the_requests_that_need_it(kafka: RefBroker) -> None:
    kafka.create_topic("t")
    assert produce(kafka, b"fits") == [0]
    kafka.disk.fail(path_prefix=kafka.data_dir / "t-0", operation="write", error=errno.ENOSPC)
    assert produce(kafka, b"does not") == [errors.KafkaStorageError.code]
    kafka.disk.heal()
    kafka.kill()
    kafka.start()
    assert contents(kafka) == [b"fits"]
    assert produce(kafka, b"again") == [0]


def test_a_broker_that_a_full_disk_has_ended_says_that_it_is_to_be_restarted(kafka: RefBroker) -> None:
    kafka.create_topic("t")
    kafka.disk.fill(bytes_left=0)
    assert produce(kafka, b"does not fit") == [errors.KafkaStorageError.code]
    kafka.wait_for(lambda broker: asyncio.wait_for(asyncio.shield(broker.parts.failed), 10))
    assert not kafka.is_running
    with pytest.raises(errors.IllegalStateError, match="was ended by a disk that failed: `restart` it"):
        kafka.start()
    kafka.disk.heal()
    kafka.restart()
    assert reread(kafka.is_running)
    assert produce(kafka, b"fits") == [0]
    assert contents(kafka) == [b"fits"]


def test_a_step_of_the_clock_returns_when_it_makes_a_disk_end_the_broker(kafka: RefBroker) -> None:
    kafka.create_topic("t")
    produce(kafka, b"moves the offsets that are written down each minute")
    kafka.disk.fail(path_prefix=kafka.data_dir, operation="write")
    kafka.clock.step(120)
    assert not kafka.is_running
    kafka.clock.step(1)
    assert kafka.clock.now_ms == NOW_MS + 121_000
    kafka.disk.heal()
    kafka.restart()
    assert contents(kafka) == [b"moves the offsets that are written down each minute"]


def test_a_broker_on_the_real_disk_says_that_it_has_no_other() -> None:
    with RefBroker() as kafka:
        with pytest.raises(errors.IllegalStateError, match="SimulatedDisk"):
            kafka.lose_power(seed=1)
        assert kafka.is_running
