"""`kclient groups` beside Kafka's own tool: both tell the same of a group, and each reads the other's files."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from kclient import Admin, OffsetAndMetadata, TopicPartition
from tests.interop.conftest import Target
from tests.support.command_line import Cli
from tests.support.group_members import GroupMembers
from tests.support.kafka.tools import TOOLS, JavaTools
from tests.support.seeding import Seeder

COMMAND = f"{TOOLS}.consumer.group.ConsumerGroupCommand"


@pytest.fixture
def group(target: Target, topic: str, admin: Admin) -> str:
    """A group at offset 4 and 5 of two partitions with ten records each."""
    with Seeder(target.bootstrap_servers) as seeder:
        seeder.create(topic, 2)
        for partition in range(2):
            seeder.append(topic, [b"value"] * 10, partition=partition)
    name = f"group-of-{topic}"
    admin.alter_group_offsets(name, {TopicPartition(topic, 0): 4, TopicPartition(topic, 1): 5})
    return name


def plan_in(text: str) -> list[str]:
    """The lines of a plan, without what a tool says besides."""
    return [line for line in text.splitlines() if re.fullmatch(r".+,\d+,\d+", line)]


def test_both_tell_the_same_lag_and_members(java: JavaTools, cli: Cli, target: Target, group: str, topic: str) -> None:
    with GroupMembers(target.bootstrap_servers) as members:
        member = members.join(group, [TopicPartition(topic, 1)])
        told = java.run(COMMAND, "--describe", "--group", group)
        # group, topic, partition, committed, end, lag, member; "-" if missing
        kafkas = {tuple(line.split()[:7]) for line in told.splitlines() if line.startswith(group)}
        ours = {
            tuple(cell or "-" for cell in line.split("\t"))
            for line in cli("groups", "lag", group).decode().splitlines()
        }
        assert ours == kafkas == {(group, topic, "0", "4", "10", "6", "-"), (group, topic, "1", "5", "10", "5", member)}


def test_each_reads_the_plan_that_the_other_exports(
    java: JavaTools, cli: Cli, admin: Admin, group: str, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "plan.csv"
    reset = ("--reset-offsets", "--group", group)
    told = java.run(COMMAND, *reset, "--all-topics", "--to-earliest", "--dry-run", "--export")
    file.write_text("\n".join(plan_in(told)), encoding="utf-8")
    cli("groups", "reset", group, "--from-file", str(file), "--execute")
    assert list(admin.list_group_offsets(group)[group].values()) == [OffsetAndMetadata(0)] * 2

    file.write_bytes(cli("groups", "reset", group, "--to-latest", "--export"))
    java.run(COMMAND, *reset, "--from-file", str(file), "--execute")
    assert list(admin.list_group_offsets(group)[group].values()) == [OffsetAndMetadata(10)] * 2


@pytest.mark.parametrize(
    "where", [("--to-earliest",), ("--to-latest",), ("--shift-by", "-3"), ("--shift-by", "20"), ("--to-offset", "99")]
)
def test_both_plan_the_same_reset(java: JavaTools, cli: Cli, group: str, where: tuple[str, ...]) -> None:
    told = java.run(COMMAND, "--reset-offsets", "--group", group, "--all-topics", *where, "--dry-run", "--export")
    ours = cli("groups", "reset", group, *where, "--export").decode()
    expected = sorted(csv.reader(plan_in(told)))
    assert len(expected) == 2
    assert list(csv.reader(plan_in(ours))) == expected
