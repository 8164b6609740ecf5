"""A producer and a consumer at full rate for minutes: nothing is lost, and the memory of all three stays flat.

Once plain, and once with transactions that a member of a group reads as they are committed.

Topics are deleted once they are read, and the producer stays a few topics ahead at most, so a run may be as long as
one likes: KCLIENT_SOAK_SECONDS, 600 if not set.
The figures are printed as a table of samples.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.patience import GUARD, PROCESS

SECONDS = float(os.environ.get("KCLIENT_SOAK_SECONDS", "600"))
SAMPLES = 60
MEBIBYTE = 1 << 20
#: What a process may grow by between the second quarter of the run and its end.
MOST_GROWTH = 20 * MEBIBYTE

ROUND = 5_000_000
"""Records of one topic; then it is the next topic's turn, and this one is deleted once it is read."""

PRODUCE = """
import contextlib, json, sys, time
from kclient import Admin, NewTopic, Producer
servers, kind, size, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
end, sent = time.monotonic() + seconds, 0
name = "soak" if kind == "transactions" else None
with Producer(bootstrap_servers=servers, transactional_id=name) as producer, Admin(bootstrap_servers=servers) as admin:
    if name:
        producer.init_transactions()
    while time.monotonic() < end:
        topic = f"soak-{sent // size}"
        if sent % size == 0:
            while len(admin.list_topics()) > 3:  # the consumer deletes what it has read: stay near it
                time.sleep(0.05)
            admin.create_topics([NewTopic(topic, num_partitions=1)])
        with producer.transaction() if name else contextlib.nullcontext():
            for _ in range(10_000):
                producer.send(topic, b"%012d" % sent + b"x" * 88)
                sent += 1
print(json.dumps(sent))
"""

CONSUME = """
import json, sys, time
from kclient import Admin, Consumer, TopicPartition
servers, kind, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
options = {"group_id": "soak", "isolation_level": "read_committed"} if kind == "transactions" else {}
expected = quiet = 0
longest = 60  # a machine under load may pause for seconds; whatever stops for longer has stopped
with (
    Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", **options) as consumer,
    Admin(bootstrap_servers=servers) as admin,
):
    while quiet < longest:
        topic = f"soak-{expected // size}"
        if expected % size == 0:
            if topic not in admin.list_topics():
                quiet += 1
                time.sleep(1.0)
                continue
            consumer.subscribe([topic]) if options else consumer.assign([TopicPartition(topic, 0)])
            if expected:
                admin.delete_topics([f"soak-{expected // size - 1}"])
        records = consumer.poll(timeout=1.0, max_records=50_000)
        quiet = 0 if records else quiet + 1
        for record in records:
            assert int(record.value[:12]) == expected, (record, expected)
            # Markers of transactions take offsets as well.
            assert options or record.offset == expected % size, (record, expected)
            expected += 1
print(json.dumps(expected))
"""


def table(samples: list[dict[str, float]]) -> str:
    names = list(samples[0])
    lines = ["  ".join(f"{name:>12}" for name in names)]
    lines += ["  ".join(f"{sample[name]:12.1f}" for name in names) for sample in samples]
    return "\n".join(lines)


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True)


@pytest.mark.soak
@pytest.mark.timeout(SECONDS + GUARD)
@pytest.mark.parametrize("kind", ["plain", "transactions"])
def test_memory_stays_flat_at_full_rate(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    # Otherwise the producer's next metadata refresh would create the deleted topics again.
    settings = {"log.segment.bytes": str(64 * MEBIBYTE), "auto.create.topics.enable": "false"}
    with BrokerProcess(tmp_path / "data", settings=settings) as broker:
        servers = broker.bootstrap_servers
        producer = start(PRODUCE, servers, kind, str(ROUND), str(SECONDS))
        consumer = start(CONSUME, servers, kind, str(ROUND))
        watched = {
            name: psutil.Process(pid)
            for name, pid in (("producer MB", producer.pid), ("consumer MB", consumer.pid), ("broker MB", broker.pid))
        }
        started = time.monotonic()
        samples: list[dict[str, float]] = []
        while producer.poll() is None and consumer.poll() is None:
            time.sleep(SECONDS / SAMPLES)  # the pace of sampling; nothing waits for it to be right
            try:
                sizes = {name: process.memory_info().rss / MEBIBYTE for name, process in watched.items()}
            except psutil.NoSuchProcess:
                break
            samples.append({"seconds": time.monotonic() - started, **sizes})
        try:
            sent, received = (
                json.loads(process.communicate(timeout=2 * PROCESS)[0]) for process in (producer, consumer)
            )
        finally:
            producer.kill()
            consumer.kill()
    with capsys.disabled():
        print(f"\n{sent:,} records sent, {received:,} received in {SECONDS:.0f} s\n{table(samples)}")  # noqa: T201 - the figures are the point
    assert sent == received
    for name in watched:
        early = max(sample[name] for sample in samples[len(samples) // 4 : len(samples) // 2])
        late = max(sample[name] for sample in samples[len(samples) // 2 :])
        assert (late - early) * MEBIBYTE < MOST_GROWTH, f"{name} grew from {early:.1f} to {late:.1f}"
