"""The metrics of a broker that serves: over HTTP, as a dict, with many connections, and under load."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from kclient.errors import IllegalStateError
from kclient.protocol.messages.api_versions import ApiVersionsRequest
from kclient.protocol.messages.metadata import MetadataRequest
from kclient.records import BatchBuilder
from refbroker.broker import Broker
from refbroker.metrics.counters import Closed
from refbroker.metrics.exposition import CONTENT_TYPE
from refbroker.server.metrics.page import MetricsPage
from refbroker.testing import RefBroker
from tests.support.patience import ANSWER, PROCESS
from tests.support.waiting import wait_until
from tests.support.wire import Wire, fetch_request, frame, produce_request

REQUESTS = "kafka_network_requestmetrics_requests_total"
CLOSED = "kafka_server_socket_server_metrics_connection_close_total"


@pytest.fixture
def page(kafka: RefBroker) -> Iterator[MetricsPage]:
    """The page of a running broker."""
    page = kafka.call(lambda broker: MetricsPage(broker.collect_metrics, "127.0.0.1", 0))
    kafka.wait_for(lambda _: page.__aenter__())
    yield page
    kafka.wait_for(lambda _: page.__aexit__(None, None, None))


def scrape(url: str) -> dict[str, Metric]:
    host, path = re.fullmatch(r"http://([^/]+)(/.*)", url).groups()  # type: ignore[union-attr]
    with contextlib.closing(http.client.HTTPConnection(host, timeout=ANSWER)) as connection:
        connection.request("GET", path)
        response = connection.getresponse()
        text = response.read().decode()
        assert response.status == 200, text
        assert response.getheader("Content-Type") == CONTENT_TYPE
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(families: dict[str, Metric], family: str, **labels: str) -> float:
    (found,) = (sample.value for sample in families[family].samples if sample.labels == labels)
    return found


@pytest.mark.not_secured("counts all requests of a connection")
def test_requests_take_their_time_in_the_parts_that_the_dict_says(kafka: RefBroker) -> None:
    kafka.create_topic("t")
    with Wire(kafka.bootstrap_servers) as wire:
        wire.ask(produce_request("t", b"v"), 9)
        wire.ask(fetch_request("t"), 11)
        wire.ask(fetch_request("t", 1, wait_ms=20), 11)
        metrics = kafka.metrics()

    assert metrics[REQUESTS] == {"Produce": 1, "Fetch": 2}
    counts = {
        part: {api: found["count"] for api, found in metrics[f"kafka_network_requestmetrics_{part}"].items()}
        for part in ("requestqueuetimems", "localtimems", "remotetimems", "responsesendtimems")
    }
    assert counts == {
        "requestqueuetimems": {"Produce": 1, "Fetch": 2},
        "localtimems": {"Produce": 1, "Fetch": 2},
        "remotetimems": {"Produce": 0, "Fetch": 1},
        "responsesendtimems": {"Produce": 1, "Fetch": 2},
    }
    assert 15 < metrics["kafka_network_requestmetrics_remotetimems"]["Fetch"]["sum"] < 10_000


@pytest.mark.not_secured("counts the bytes of all requests")
def test_bytes_on_the_wire_are_counted_with_the_sizes_of_frames(kafka: RefBroker) -> None:
    request = frame(MetadataRequest(topics=[]), 12)
    with Wire(kafka.bootstrap_servers) as wire:
        wire.write(request)
        answer = wire.read_frame()
        metrics = kafka.metrics()

    assert metrics["refbroker_request_bytes_total"] == {"Metadata": len(request)}
    assert metrics["refbroker_response_bytes_total"] == {"Metadata": len(answer) + 4}
    assert metrics["kafka_server_socket_server_metrics_incoming_byte_total"] == len(request)
    assert metrics["kafka_server_socket_server_metrics_outgoing_byte_total"] == len(answer) + 4


@pytest.mark.not_simulated("both requests must arrive in one segment: a busy connection reads nothing")
def test_what_stands_behind_a_long_poll_waits_in_the_queue(kafka: RefBroker) -> None:
    kafka.create_topic("t")
    with Wire(kafka.bootstrap_servers) as wire:
        wire.write(frame(fetch_request("t", wait_ms=50), 11, 1) + frame(MetadataRequest(topics=[]), 12, 2))
        wire.read_frame()
        wire.read_frame()
        queue = kafka.metrics()["kafka_network_requestmetrics_requestqueuetimems"]

    assert queue["Fetch"]["sum"] < 40
    assert queue["Metadata"]["sum"] > 40


def test_an_answer_counts_as_sent_when_a_slow_reader_has_made_room(kafka: RefBroker) -> None:
    kafka.create_topic("t")
    answers = 200
    with Wire(kafka.bootstrap_servers) as producer:
        # Below the size from which sendfile takes over, so that answers go through the transport's buffer.
        producer.ask(produce_request("t", b"x" * 150_000), 9)
    with Wire(kafka.bootstrap_servers) as wire:
        wire.write(b"".join(frame(fetch_request("t"), 11, number) for number in range(answers)))
        wait_until(lambda: kafka.call(lambda broker: any(one.is_busy for one in broker.server.connections)))
        key = "kafka_network_requestmetrics_responsesendtimems"
        before = kafka.metrics()[key]["Fetch"]["count"]
        for _ in range(answers):
            wire.read_frame()
        wait_until(lambda: kafka.metrics()[key]["Fetch"]["count"] == answers)

    assert before < answers
    assert kafka.metrics()["kafka_server_brokertopicmetrics_bytesout_total"]["t"] > answers * 150_000


@pytest.mark.parametrize("reason", list(Closed))
def test_connections_are_counted_by_why_they_were_closed(reason: Closed) -> None:
    with RefBroker(max_connections_per_ip=2) as kafka, contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(kafka.bootstrap_servers)) for _ in range(2)]
        for wire in wires:
            wire.ask(ApiVersionsRequest(), 0)
        if reason is Closed.CLIENT:
            wires[0].socket.close()
        elif reason is Closed.REFUSED:
            assert stack.enter_context(Wire(kafka.bootstrap_servers)).is_closed()
        elif reason is Closed.ERROR:
            wires[0].write(b"GET / HTTP/1.1\r\n\r\n")
        else:
            kafka.call(lambda broker: close_one(broker, reason))
        wait_until(lambda: kafka.metrics()[CLOSED][reason] == 1)

        metrics = kafka.metrics()
        assert sum(metrics[CLOSED].values()) == 1
        opened = 3 if reason is Closed.REFUSED else 2
        assert metrics["kafka_server_socket_server_metrics_connection_creation_total"] == opened
        assert metrics["kafka_server_socket_server_metrics_connection_count"] == opened - 1


def close_one(broker: Broker, reason: Closed) -> None:
    connection = next(iter(broker.server.connections))
    if reason is Closed.IDLE:
        connection.last_active_ns -= 601 * 10**9
        broker.server.sweep()
    else:
        connection.abort()


def test_logs_and_the_state_of_the_cluster_are_in_the_dict(kafka: RefBroker) -> None:
    kafka.create_topic("t", partitions=2)
    with Wire(kafka.bootstrap_servers) as wire:
        wire.ask(produce_request("t", b"v"), 9)
    metrics = kafka.metrics()

    size = kafka.log("t").size_in_bytes()
    assert metrics["kafka_log_log_size"]["t"] == {"0": size, "1": 0}
    assert metrics["kafka_log_log_logendoffset"]["t"] == {"0": 1, "1": 0}
    assert metrics["kafka_log_log_logstartoffset"]["t"] == {"0": 0, "1": 0}
    assert metrics["kafka_log_log_numlogsegments"]["t"] == {"0": 1, "1": 1}
    assert metrics["kafka_server_replicamanager_partitioncount"] == 2
    assert metrics["kafka_controller_kafkacontroller_globaltopiccount"] == 1
    assert metrics["kafka_controller_kafkacontroller_globalpartitioncount"] == 2
    assert metrics["kafka_log_logmanager_offlinelogdirectorycount"] == 0
    assert metrics["kafka_log_logmanager_logdirectoryoffline"] == {str(kafka.data_dir): 0}
    assert metrics["refbroker_log_directory_usable_bytes"][str(kafka.data_dir)] > 0
    assert metrics["kafka_server_broker_metadata_metrics_last_applied_record_offset"] > 0
    json.dumps(metrics)


def test_flushes_and_what_retention_deletes_are_counted(kafka: RefBroker) -> None:
    kafka.create_topic("t")
    with Wire(kafka.bootstrap_servers) as wire:
        # Of the year 2020, older than the seven days of log.retention.hours.
        wire.ask(produce_request("t", b"v", timestamp=1_600_000_000_000), 9)
    before = kafka.metrics()
    kafka.log("t").flush()
    kafka.wait_for(lambda broker: broker.parts.logs.apply_retention())
    after = kafka.metrics()

    flushes = "kafka_log_logflushstats_logflushrateandtimems"
    assert after[flushes]["count"] == before[flushes]["count"] + 1
    deleted = "refbroker_log_retention_deleted_segments_total"
    assert (before[deleted], after[deleted]) == (0, 1)
    assert after["kafka_log_log_logstartoffset"]["t"] == {"0": 1}


def test_the_progress_of_compaction_is_counted(kafka: RefBroker) -> None:
    kafka.create_topic("t", cleanup_policy="compact", min_cleanable_dirty_ratio="0")
    builder = BatchBuilder()
    for _ in range(3):
        builder.append(1_700_000_000_000, b"key", b"value")
    records = bytes(builder.build())
    log = kafka.log("t")
    kafka.call(lambda broker: log.append(records, leader_epoch=0, now_ms=broker.parts.clock()))
    kafka.call(lambda broker: log.roll())
    before = kafka.metrics()
    kafka.wait_for(lambda broker: broker.parts.cleaner.clean_due())
    after = kafka.metrics()

    uncleaned = "refbroker_log_cleaner_uncleaned_bytes"
    assert (before[uncleaned]["t"], after[uncleaned]["t"]) == ({"0": len(records)}, {"0": 0})
    assert before["refbroker_log_cleaner_passes_total"] == 0
    assert after["refbroker_log_cleaner_passes_total"] == 1
    assert after["refbroker_log_cleaner_records_total"] == {"kept": 1, "removed": 2}
    assert after["refbroker_log_cleaner_read_bytes_total"] >= len(records)
    assert 0 < after["refbroker_log_cleaner_written_bytes_total"] < len(records)
    assert after["kafka_log_logcleanermanager_time_since_last_run_ms"] >= 0


def test_a_broker_that_does_not_run_has_no_metrics() -> None:
    broker = RefBroker()
    try:
        with pytest.raises(IllegalStateError):
            broker.metrics()
    finally:
        broker.close()


@pytest.mark.not_simulated("reads a page over HTTP, which the broker serves in threads that wait on sockets")
def test_the_page_is_answered_while_200_connections_are_open(kafka: RefBroker, page: MetricsPage) -> None:
    with contextlib.ExitStack() as stack:
        wires = []
        for _ in range(200):
            wires.append(stack.enter_context(Wire(kafka.bootstrap_servers)))
            # The first request logs in, for which a broker with security does not wait for long.
            wires[-1].send(MetadataRequest(topics=[]), 12)
        for wire in wires:
            wire.read_frame()
        families = scrape(page.url)

    assert value(families, "kafka_server_socket_server_metrics_connection_count") == 200
    assert value(families, "kafka_network_requestmetrics_requests", request="Metadata") == 200


@pytest.mark.not_simulated("reads a page over HTTP, which the broker serves in threads that wait on sockets")
def test_the_page_is_answered_under_load(kafka: RefBroker, page: MetricsPage) -> None:
    kafka.create_topic("t", partitions=300)
    stop = threading.Event()
    failures: list[BaseException] = []

    def load() -> None:
        try:
            with Wire(kafka.bootstrap_servers) as wire:
                while not stop.is_set():
                    wire.ask(produce_request("t", b"x" * 10_000), 9)
                    wire.ask(fetch_request("t", max_bytes=100_000), 11)
        except BaseException as error:  # noqa: BLE001 - it is raised in the test
            failures.append(error)

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        seen = []
        for _ in range(5):
            families = scrape(page.url)
            seen.append(value(families, "kafka_server_brokertopicmetrics_messagesin"))
            assert (
                len([sample for sample in families["kafka_log_log_size"].samples if sample.labels["topic"] == "t"])
                == 300
            )
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert seen == sorted(seen)
    assert seen[-1] > seen[0]


@pytest.mark.not_simulated("reads a page over HTTP, which the broker serves in threads that wait on sockets")
def test_the_page_ends_with_the_broker_and_its_pending_requests(kafka: RefBroker) -> None:
    page = kafka.call(lambda broker: MetricsPage(broker.collect_metrics, "127.0.0.1", 0))
    kafka.wait_for(lambda _: page.__aenter__())
    host, port = re.fullmatch(r"http://([^:]+):(\d+)/metrics", page.url).groups()  # type: ignore[union-attr]
    with socket.create_connection((host, int(port)), timeout=ANSWER) as silent:
        kafka.wait_for(lambda _: page.__aexit__(None, None, None))
        # A connection that was still in the backlog is reset.
        with contextlib.suppress(ConnectionResetError):
            assert silent.recv(1) == b""


@pytest.mark.not_simulated("runs processes")
def test_run_serves_the_page_and_says_where(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "refbroker",
        "run",
        "--port",
        "0",
        "--data-dir",
        str(tmp_path),
        "--metrics-port",
        "0",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("refbroker ready on 127.0.0.1:")
            said = process.stdout.readline()
            found = re.fullmatch(r"refbroker metrics on (http://127\.0\.0\.1:\d+/metrics)\n", said)
            assert found is not None, said
            families = scrape(found[1])
        finally:
            process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PROCESS)

    assert value(families, "kafka_server_replicamanager_partitioncount") == 0
    assert process.returncode == 0
    assert errors == ""


@pytest.mark.not_simulated("runs processes")
def test_run_says_that_the_port_of_the_page_is_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "refbroker", "run", "--port", "0", "--data-dir", str(tmp_path)]
        done = subprocess.run(
            [*command, "--metrics-port", port], capture_output=True, text=True, timeout=PROCESS, env=dict(os.environ)
        )

    assert done.returncode == 2
    assert done.stdout == ""
    assert f"could not listen on 127.0.0.1:{port}" in done.stderr
