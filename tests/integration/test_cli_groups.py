"""`kclient groups` as it is used, in a pipe."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kclient import Admin, OffsetAndMetadata, TopicPartition
from tests.support.command_line import Cli
from tests.support.group_members import CLIENT_ID, GroupMembers
from tests.support.seeding import Seeder

START = 1_600_000_000_000


@pytest.fixture
def group(bootstrap_servers: str, topic: str, admin: Admin) -> str:
    """A group without members at offset 4 of both partitions, which have ten records a millisecond apart."""
    with Seeder(bootstrap_servers) as seeder:
        seeder.create(topic, 2)
        for partition in range(2):
            seeder.append(topic, [b"value"] * 10, partition=partition, timestamp=START)
    name = f"group-of-{topic}"
    admin.alter_group_offsets(name, dict.fromkeys(both(topic), 4))
    return name


def both(topic: str) -> tuple[TopicPartition, TopicPartition]:
    return TopicPartition(topic, 0), TopicPartition(topic, 1)


def test_groups_are_listed(cli: Cli, group: str) -> None:
    line = f"{group}\tClassic\tEmpty\t"
    assert line in cli("groups", "list").decode().splitlines()
    assert line in cli("groups", "list", "--state", "empty", "--type", "CLASSIC").decode().splitlines()
    assert line not in cli("groups", "list", "--state", "preparing-rebalance").decode().splitlines()
    assert json.loads(cli("groups", "list", "--json"))[group]["state"] == "Empty"


def test_members_and_what_they_read_are_described(cli: Cli, bootstrap_servers: str, group: str, topic: str) -> None:
    with GroupMembers(bootstrap_servers) as members:
        member_id = members.join(group, both(topic), instance_id="one")
        (line,) = cli("groups", "describe", group).decode().splitlines()
        name, state, assignor, _, *member, partitions = line.split("\t")
        assert (name, state, assignor) == (group, "Stable", "range")
        assert member[:3] == [member_id, "one", CLIENT_ID]
        assert partitions == f"{topic}-0 {topic}-1"
        described = json.loads(cli("groups", "describe", group, "--json"))[group]
        assert described["members"][0]["assignment"][1] == {"topic": topic, "partition": 1}


def test_lag_is_shown_and_what_failed_as_well(cli: Cli, group: str, topic: str) -> None:
    done = cli.run("groups", "lag", group, f"{group}-none")
    assert done.returncode == 1
    lines = [f"{group}\t{topic}\t{number}\t4\t10\t6\t" for number in range(2)]
    assert done.stdout.decode().splitlines() == lines
    assert done.stderr.decode().startswith(f"kclient: {group}-none: GROUP_ID_NOT_FOUND")
    assert [each["lag"] for each in json.loads(cli("groups", "lag", group, "--json"))] == [6, 6]


@pytest.mark.parametrize(
    ("arguments", "after"),
    [
        (["--to-earliest"], 0),
        (["--to-latest"], 10),
        (["--to-time", str(START + 6)], 6),
        (["--by-duration", "PT1H"], 10),
        (["--shift-by", "-1"], 3),
        (["--to-offset", "99"], 10),
    ],
)
def test_a_reset_is_only_shown_without_execute(
    cli: Cli, admin: Admin, group: str, topic: str, arguments: list[str], after: int
) -> None:
    planned = "".join(f"{topic}\t{number}\t4\t{after}\n" for number in range(2)).encode()
    dry_run = cli.run("groups", "reset", group, *arguments)
    assert (dry_run.returncode, dry_run.stdout) == (0, planned)
    assert dry_run.stderr == b"kclient: nothing was changed; pass --execute to make the change\n"
    assert set(admin.list_group_offsets(group)[group].values()) == {OffsetAndMetadata(4)}
    assert cli("groups", "reset", group, *arguments, "--execute") == planned
    assert set(admin.list_group_offsets(group)[group].values()) == {OffsetAndMetadata(after)}


def test_a_reset_goes_through_a_file(cli: Cli, admin: Admin, group: str, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_bytes(cli("groups", "reset", group, "--to-latest", "--export"))
    assert file.read_text(encoding="utf-8") == f"{topic},0,10\n{topic},1,10\n"
    cli("groups", "reset", group, "--from-file", str(file), "--execute")
    assert set(admin.list_group_offsets(group)[group].values()) == {OffsetAndMetadata(10)}


def test_a_reset_may_be_of_some_partitions(cli: Cli, group: str, topic: str) -> None:
    shown = cli("groups", "reset", group, "--to-offset", "1", "--topic", f"{topic}:1", "--json", "--execute")
    assert json.loads(shown) == [{"topic": topic, "partition": 1, "before": 4, "after": 1}]


def test_a_group_with_members_is_not_reset(cli: Cli, bootstrap_servers: str, group: str, topic: str) -> None:
    with GroupMembers(bootstrap_servers) as members:
        members.join(group, both(topic))
        done = cli.run("groups", "reset", group, "--to-earliest")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"has 1 members" in done.stderr


@pytest.mark.parametrize("arguments", [[], ["--execute", "--json"]])
def test_a_reset_of_a_misspelt_group_is_an_error(cli: Cli, topic: str, arguments: list[str]) -> None:
    done = cli.run("groups", "reset", f"no-{topic}", "--to-earliest", *arguments)
    assert (done.returncode, done.stdout) == (1, b"")
    assert f"the group 'no-{topic}' does not exist" in done.stderr.decode()


def test_groups_and_offsets_are_deleted(cli: Cli, admin: Admin, group: str, topic: str) -> None:
    first, second = both(topic)
    assert cli("groups", "delete", group, "--topic", f"{topic}:0") == f"{group}\t{topic}\t0\n".encode()
    assert admin.list_group_offsets(group)[group] == {second: OffsetAndMetadata(4)}
    admin.alter_group_offsets(group, {first: 1})
    assert cli("groups", "delete", group, "--topic", topic).count(b"\n") == 2
    admin.alter_group_offsets(group, {first: 1})
    done = cli.run("groups", "delete", group, f"{group}-none")
    assert (done.returncode, done.stdout) == (1, f"{group}\n".encode())
    assert group not in admin.list_groups()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["list", "--state", "idle"], "there is no 'idle', only PreparingRebalance, CompletingRebalance, Stable"),
        (["list", "--type", "idle"], "only Classic, Consumer, Share, Streams"),
        (["reset", "g"], "pass one of --to-earliest, --to-latest"),
        (["reset", "g", "--to-earliest", "--to-latest"], "pass one of --to-earliest, --to-latest"),
        (["reset", "g", "--to-time", "soon"], "'soon' is neither milliseconds nor a time"),
        (["reset", "g", "--by-duration", "1h"], "--by-duration: '1h' is not a duration in ISO 8601"),
        (["reset", "g", "--to-latest", "--topic", "t:x"], "'t:x' is not TOPIC or TOPIC:PARTITION,..."),
    ],
)
def test_what_is_wrong_on_the_command_line_is_named(cli: Cli, arguments: list[str], text: str) -> None:
    done = cli.run("groups", *arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert text in " ".join(done.stderr.decode().replace("│", " ").split())
