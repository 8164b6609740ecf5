"""Committed offsets over the wire: `__consumer_offsets` stays small and is loaded fast, and a crash loses no answer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from kclient.protocol.messages.create_topics import CreateTopicsRequest
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest
from kclient.protocol.messages.list_groups import ListGroupsRequest
from kclient.protocol.messages.offset_commit import OffsetCommitRequest
from kclient.protocol.messages.offset_fetch import OffsetFetchRequest
from refbroker.broker import Broker
from refbroker.testing import RefBroker
from tests.support.patience import ANSWER, PROCESS
from tests.support.waiting import wait_until
from tests.support.wire import Wire

TOPIC, GROUP, PARTITIONS = "t", "g", 10
SEGMENT_BYTES = 1 << 20
"""No topic may have smaller ones."""
SMALL: dict[str, Any] = {
    "offsets_topic_num_partitions": 1,
    "offsets_topic_segment_bytes": SEGMENT_BYTES,
    "log_cleaner_backoff_ms": 5,
    "log_cleaner_min_cleanable_ratio": 0.01,
    "log_segment_delete_delay_ms": 20,
}
LOADING = 14


def prepare(wire: Wire, partitions: int = PARTITIONS) -> None:
    topic = CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=partitions, replication_factor=1)
    wire.ask(CreateTopicsRequest(topics=[topic]), 7)
    assert wire.ask(FindCoordinatorRequest(coordinator_keys=[GROUP]), 4).coordinators[0].error_code == 0


def commit(offset: int, partitions: int = PARTITIONS, group: str = GROUP) -> OffsetCommitRequest:
    """The same offset for all partitions."""
    one = OffsetCommitRequest.OffsetCommitRequestPartition
    places = [one(partition_index=number, committed_offset=offset) for number in range(partitions)]
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=places)
    return OffsetCommitRequest(group_id=group, topics=[topic])


def committed(wire: Wire, group: str = GROUP) -> set[int]:
    """The offsets of all partitions, once the group is loaded."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None)])
    wait_until(lambda: wire.ask(request, 8).groups[0].error_code != LOADING)
    [found] = wire.ask(request, 8).groups
    assert found.error_code == 0
    return {one.committed_offset for topic in found.topics for one in topic.partitions}


def size(broker: Broker) -> int:
    return sum(log.size_in_bytes() for log in broker.parts.logs.logs() if log.topic == "__consumer_offsets")


def test_compaction_keeps_the_latest_of_each_partition(tmp_path: Path) -> None:
    partitions, rounds = 100, 700
    with RefBroker(data_dir=tmp_path, **SMALL) as kafka, Wire(kafka.bootstrap_servers) as wire:
        prepare(wire, partitions)
        wire.ask(commit(7, group="quiet"), 8)
        for offset in range(rounds):
            wire.ask(commit(offset, partitions), 8)
        # What is left is the active segment, and one record for each partition and group.
        wait_until(lambda: kafka.call(size) < 1.1 * SEGMENT_BYTES)
        assert kafka.call(lambda broker: broker.parts.cleaner.stats.records_removed) > rounds * partitions // 2
        assert (committed(wire), committed(wire, "quiet")) == ({rounds - 1}, {7})
    with RefBroker(data_dir=tmp_path, **SMALL) as kafka, Wire(kafka.bootstrap_servers) as wire:
        assert (committed(wire), committed(wire, "quiet")) == ({rounds - 1}, {7})


@pytest.mark.not_simulated("is about volume: a million commits take a simulation minutes")
@pytest.mark.slow
@pytest.mark.parametrize("commits", [100_000, pytest.param(1_000_000, marks=pytest.mark.nightly)], ids="{:,}".format)
def test_many_commits_stay_a_small_topic_that_is_loaded_again(tmp_path: Path, commits: int) -> None:
    partitions, in_flight = 200, 20
    rounds = commits // partitions
    with RefBroker(data_dir=tmp_path, **SMALL) as kafka, Wire(kafka.bootstrap_servers) as wire:
        prepare(wire, partitions)
        for begin in range(0, rounds, in_flight):
            for offset in range(begin, begin + in_flight):
                wire.send(commit(offset, partitions), 8)
            for _ in range(in_flight):
                wire.read_frame()
        assert committed(wire) == {rounds - 1}
        wait_until(lambda: kafka.call(size) < 2 * SEGMENT_BYTES)
    with RefBroker(data_dir=tmp_path, **SMALL) as kafka, Wire(kafka.bootstrap_servers) as wire:
        wait_until(lambda: wire.ask(ListGroupsRequest(), 5).error_code == 0)
        assert committed(wire) == {rounds - 1}


@pytest.mark.not_simulated("kills a process")
@pytest.mark.parametrize("after", [50, 400])
def test_a_crash_loses_no_commit_that_was_answered(tmp_path: Path, after: int) -> None:
    """Offsets grow: what is there after the crash is the last answered one, or the one that was under way."""
    command = [sys.executable, "-m", "refbroker", "run", "--port", "0", "--data-dir", str(tmp_path / "data")]
    command += ["--set", "offsets.topic.num.partitions=1"]

    def start() -> tuple[subprocess.Popen[str], str]:
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert process.stdout is not None
        return process, process.stdout.readline().split()[-1]

    def end(process: subprocess.Popen[str]) -> None:
        process.kill()
        process.wait(PROCESS)
        assert process.stdout is not None
        process.stdout.close()

    process, address = start()
    answered = -1
    enough = threading.Event()

    def kill() -> None:
        enough.wait(ANSWER)
        os.kill(process.pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    try:
        with Wire(address) as wire:
            prepare(wire)
            killer.start()
            try:
                while True:
                    wire.ask(commit(answered + 1), 8)
                    answered += 1
                    if answered == after:
                        enough.set()
            except (EOFError, OSError):
                killer.join(ANSWER)
    finally:
        end(process)
    assert answered >= after
    process, address = start()
    try:
        with Wire(address) as wire:
            [found] = committed(wire)
            assert found in (answered, answered + 1)
            wire.ask(commit(answered + 5), 8)
            assert committed(wire) == {answered + 5}
    finally:
        end(process)
