"""Kafka's own tools for data directories against refbroker: kafka-log-dirs and kafka-reassign-partitions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.kafka.tools import KEYED_INPUT, KEYED_OUTPUT, TOOLS, JavaTools, keyed_lines
from tests.support.waiting import wait_until

RECORDS = 300
NODE = 1


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("log-dirs")
    return [root / name for name in ("one", "two")]


@pytest.fixture(scope="module")
def tools(needs_kafka: None, directories: list[Path]) -> Iterator[JavaTools]:
    """Kafka's tools, pointed at a broker with two data directories."""
    settings = {"log.dirs": ",".join(map(str, directories))}
    with BrokerProcess(directories[0], settings=settings) as process:
        yield JavaTools(process.bootstrap_servers)


def described(tools: JavaTools, topic: str) -> dict[str, list[dict[str, Any]]]:
    """What kafka-log-dirs says: directory -> partitions."""
    output = tools.run(f"{TOOLS}.LogDirsCommand", "--describe", "--topic-list", topic)
    answer = json.loads(next(line for line in output.splitlines() if line.startswith("{")))
    (broker,) = answer["brokers"]
    assert broker["broker"] == NODE
    assert all(found["error"] is None for found in broker["logDirs"])
    return {found["logDir"]: found["partitions"] for found in broker["logDirs"]}


def plan(path: Path, topic: str, directory: Path) -> Path:
    partition = {"topic": topic, "partition": 0, "replicas": [NODE], "log_dirs": [str(directory)]}
    file = path / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    return file


def reassign(tools: JavaTools, file: Path, *arguments: str) -> str:
    command = f"{TOOLS}.reassign.ReassignPartitionsCommand"
    return tools.run(command, "--reassignment-json-file", str(file), *arguments)


def test_kafka_log_dirs_shows_what_is_where(tools: JavaTools, directories: list[Path]) -> None:
    tools.create_topic("shown", 4)
    tools.produce("shown", keyed_lines(RECORDS), *KEYED_INPUT)
    found = described(tools, "shown")
    assert set(found) == {str(directory) for directory in directories}
    assert sum(len(partitions) for partitions in found.values()) == 4
    for path, partitions in found.items():
        for partition in partitions:
            segments = Path(path, partition["partition"]).glob("*.log")
            assert partition["size"] == sum(segment.stat().st_size for segment in segments)
            assert (partition["offsetLag"], partition["isFuture"]) == (0, False)


def test_kafka_reassign_partitions_moves_a_partition_to_another_directory(
    tools: JavaTools, directories: list[Path], tmp_path: Path
) -> None:
    tools.create_topic("moved")
    tools.produce("moved", keyed_lines(RECORDS), *KEYED_INPUT)
    (source,) = (path for path, partitions in described(tools, "moved").items() if partitions)
    target = next(directory for directory in directories if str(directory) != source)
    file = plan(tmp_path, "moved", target)
    output = reassign(tools, file, "--execute")
    assert f"Successfully started moving log directory to {target} for replica moved-0" in output, output
    wait_until(lambda: "completed" in reassign(tools, file, "--verify"))
    assert f"Reassignment of replica moved-0-{NODE} completed" in reassign(tools, file, "--verify")
    (partition,) = described(tools, "moved")[str(target)]
    assert partition["partition"] == "moved-0"
    consumed = tools.consume("moved", RECORDS, *KEYED_OUTPUT)
    assert consumed.replace(f"Processed a total of {RECORDS} messages\n", "") == keyed_lines(RECORDS)


def test_kafka_reassign_partitions_says_that_there_is_no_such_directory(tools: JavaTools, tmp_path: Path) -> None:
    tools.create_topic("stays")
    output = reassign(tools, plan(tmp_path, "stays", tmp_path / "elsewhere"), "--execute")
    assert "LogDirNotFoundException" in output, output
