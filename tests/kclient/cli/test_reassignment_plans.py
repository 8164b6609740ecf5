"""Plans of reassignments in the JSON format of Kafka's tool."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from kclient.admin import TopicPartitionReplica
from kclient.cli.reassignment_plans import plan_document, read_plan, read_topics
from kclient.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def file(folder: Path, content: Any) -> Path:
    path = folder / "plan.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def entry(**changes: Any) -> dict[str, Any]:
    return {"topic": "t", "partition": 0, "replicas": [1, 2], **changes}


def test_a_plan_that_is_written_is_read_again(tmp_path: Path) -> None:
    log_dirs = {TopicPartitionReplica("t", 1, 3): "/a", TopicPartitionReplica("u", 0, 1): "/of another topic"}
    document = plan_document({T1: (3, 1), T0: (1, 2)}, log_dirs)
    assert document == {
        "version": 1,
        "partitions": [
            {"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]},
            {"topic": "t", "partition": 1, "replicas": [3, 1], "log_dirs": ["/a", "any"]},
        ],
    }
    plan = read_plan(file(tmp_path, document))
    assert plan.replicas == {T0: (1, 2), T1: (3, 1)}
    assert plan.log_dirs == {TopicPartitionReplica("t", 1, 3): "/a"}
    assert plan.brokers == {1, 2, 3}


def test_a_plan_needs_no_version_and_no_directories_and_may_say_more(tmp_path: Path) -> None:
    plan = read_plan(file(tmp_path, {"partitions": [entry(comment="of a person")]}))
    assert (plan.replicas, plan.log_dirs) == ({T0: (1, 2)}, {})


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("not JSON", "JSON is malformed"),
        ({"version": 1}, "missing required field `partitions`"),
        ({"partitions": [entry(partition="0")]}, r"Expected `int`, got `str` - at `\$.partitions\[0\].partition`"),
        ({"version": 2, "partitions": [entry()]}, "version 2, and only version 1"),
        ({"partitions": []}, "no partitions"),
        ({"partitions": [entry(), entry()]}, "t-0 occurs twice"),
        ({"partitions": [entry(replicas=[])]}, "t-0 has no replicas"),
        ({"partitions": [entry(replicas=[1, 2, 1])]}, "t-0 has more than one replica on broker 1"),
        ({"partitions": [entry(log_dirs=["any"])]}, "t-0 has 2 replicas, but 1 log_dirs"),
    ],
    ids=["text", "fields", "types", "version", "empty", "twice", "no replicas", "same broker", "log dirs"],
)
def test_a_file_that_is_no_plan_is_named_with_the_reason(tmp_path: Path, content: Any, reason: str) -> None:
    path = file(tmp_path, content)
    with pytest.raises(typer.BadParameter, match=f"plan.json is not usable: .*{reason}"):
        read_plan(path)


def test_topics_are_read_as_kafkas_tool_reads_them(tmp_path: Path) -> None:
    assert read_topics(file(tmp_path, {"topics": [{"topic": "b"}, {"topic": "a"}], "version": 1})) == ["b", "a"]
    with pytest.raises(typer.BadParameter, match="version 3"):
        read_topics(file(tmp_path, {"topics": [], "version": 3}))
