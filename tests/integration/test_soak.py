"""A producer and a consumer at full rate for minutes: nothing is lost, and the memory of all three stays flat.

The broker keeps only the last segments (records are deleted as they are read), so a run may be as long as one
likes: KCLIENT_SOAK_SECONDS, 600 if not set. The figures are printed as a table of samples.
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

from kclient import Admin, NewTopic
from tests.interop.broker_process import BrokerProcess

SECONDS = float(os.environ.get("KCLIENT_SOAK_SECONDS", "600"))
SAMPLES = 60
MEBIBYTE = 1 << 20
#: What a process may grow by between the second quarter of the run and its end.
MOST_GROWTH = 20 * MEBIBYTE

PRODUCE = """
import json, sys, time
from kclient import Producer
servers, topic, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
end, sent = time.monotonic() + seconds, 0
with Producer(bootstrap_servers=servers) as producer:
    while time.monotonic() < end:
        for _ in range(1000):
            producer.send(topic, b"%012d" % sent + b"x" * 88)
            sent += 1
print(json.dumps(sent))
"""

CONSUME = """
import json, sys
from kclient import Admin, Consumer, TopicPartition
servers, topic, stop = sys.argv[1:]
partition = TopicPartition(topic, 0)
expected = 0
with (
    Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer,
    Admin(bootstrap_servers=servers) as admin,
):
    consumer.assign([partition])
    quiet = 0
    while quiet < 5:
        records = consumer.poll(timeout=1.0, max_records=50_000)
        quiet = 0 if records else quiet + 1
        for record in records:
            assert record.offset == expected and int(record.value[:12]) == expected, (record.offset, expected)
            expected += 1
        if records and expected % 5_000_000 < len(records):
            admin.delete_records({partition: expected})
print(json.dumps(expected))
"""


def table(samples: list[dict[str, float]]) -> str:
    names = list(samples[0])
    lines = ["  ".join(f"{name:>12}" for name in names)]
    lines += ["  ".join(f"{sample[name]:12.1f}" for name in names) for sample in samples]
    return "\n".join(lines)


@pytest.mark.soak
@pytest.mark.timeout(SECONDS + 300)
def test_memory_stays_flat_at_full_rate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = {"log.segment.bytes": str(64 * MEBIBYTE)}
    with BrokerProcess(tmp_path / "data", settings=settings) as broker:
        servers = broker.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic("soak", num_partitions=1)])
        pipe = {"stdout": subprocess.PIPE, "text": True}
        producer = subprocess.Popen([sys.executable, "-c", PRODUCE, servers, "soak", str(SECONDS)], **pipe)
        consumer = subprocess.Popen([sys.executable, "-c", CONSUME, servers, "soak", ""], **pipe)
        watched = {
            name: psutil.Process(pid)
            for name, pid in (("producer MB", producer.pid), ("consumer MB", consumer.pid), ("broker MB", broker.pid))
        }
        started, samples = time.monotonic(), []
        while producer.poll() is None and consumer.poll() is None:
            time.sleep(SECONDS / SAMPLES)  # the pace of sampling; nothing waits for it to be right
            try:
                sizes = {name: process.memory_info().rss / MEBIBYTE for name, process in watched.items()}
            except psutil.NoSuchProcess:
                break
            samples.append({"seconds": time.monotonic() - started, **sizes})
        sent, received = (json.loads(process.communicate(timeout=240)[0]) for process in (producer, consumer))
    with capsys.disabled():
        print(f"\n{sent:,} records sent, {received:,} received in {SECONDS:.0f} s\n{table(samples)}")  # noqa: T201 - the figures are the point
    assert sent == received
    for name in watched:
        early = max(sample[name] for sample in samples[len(samples) // 4 : len(samples) // 2])
        late = max(sample[name] for sample in samples[len(samples) // 2 :])
        assert (late - early) * MEBIBYTE < MOST_GROWTH, f"{name} grew from {early:.1f} to {late:.1f}"
