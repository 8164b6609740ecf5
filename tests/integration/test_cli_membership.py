"""`kclient consume` beside the group of an application and as a member of one; the command runs in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kclient import Admin, TopicPartition
from kclient.cli.consume import consume
from kclient.types import ConsumerRecord
from tests.support.seeding import Seeder


@pytest.fixture
def filled(seed: Seeder, topic: str) -> str:
    """A topic of two partitions with ten records in each: 0 to 9 and 10 to 19."""
    seed.create(topic, 2)
    for partition in range(2):
        seed.append(topic, [b"%d" % (10 * partition + number) for number in range(10)], partition=partition)
    return topic


@pytest.fixture
def group(topic: str) -> str:
    return f"group-of-{topic}"


@pytest.fixture
def run(bootstrap_servers: str, capsysbinary: pytest.CaptureFixture[bytes]) -> Callable[..., list[int]]:
    """Run the command; returns the numbers that it printed."""

    def run_it(topic: str, **options: Any) -> list[int]:
        consume([topic], servers=bootstrap_servers, **options)
        return sorted(map(int, capsysbinary.readouterr().out.split()))

    return run_it


def committed(admin: Admin, group: str, topic: str) -> list[int | None]:
    """What a group has committed for both partitions."""
    found = admin.list_group_offsets(group)[group]
    return [offset.offset if (offset := found.get(TopicPartition(topic, each))) else None for each in range(2)]


def test_the_file_of_an_application_leaves_its_group_alone(
    run: Callable[..., list[int]], admin: Admin, filled: str, group: str, tmp_path: Path
) -> None:
    admin.alter_group_offsets(group, {TopicPartition(filled, 0): 4})
    file = tmp_path / "app.properties"
    file.write_text(f"group.id={group}\nenable.auto.commit=true\nauto.commit.interval.ms=1\n", encoding="utf-8")
    assert run(filled, properties=file, exit_at_end=True) == list(range(20))
    assert committed(admin, group, filled) == [4, None]


def test_a_member_continues_where_its_group_has_committed_and_commits_what_it_prints(
    run: Callable[..., list[int]], admin: Admin, filled: str, group: str, group_protocol: str
) -> None:
    member = {"group": group, "settings": [f"group.protocol={group_protocol}"]}
    admin.alter_group_offsets(group, {TopicPartition(filled, 0): 4})
    first = run(filled, **member, count=3)
    at = committed(admin, group, filled)
    assert sum(offset for offset in at if offset is not None) == 4 + 3
    assert sorted(first + run(filled, **member, exit_at_end=True)) == list(range(4, 20))
    assert committed(admin, group, filled) == [10, 10]
    assert run(filled, **member, exit_at_end=True) == []


def test_a_member_says_that_it_commits(
    bootstrap_servers: str, capsysbinary: pytest.CaptureFixture[bytes], filled: str, group: str
) -> None:
    consume([filled], servers=bootstrap_servers, group=group, count=1)
    (said,) = capsysbinary.readouterr().err.decode().splitlines()
    assert said == f"kclient: reading as a member of the group '{group}', and committing what is printed"


def test_a_member_that_begins_at_the_end_has_its_place_from_then_on(
    run: Callable[..., list[int]], seed: Seeder, filled: str, group: str
) -> None:
    assert run(filled, group=group, start="end", exit_at_end=True) == []
    seed.append(filled, [b"20"], partition=0)
    assert run(filled, group=group, start="end", exit_at_end=True) == [20]


def test_records_that_were_not_printed_are_not_committed(
    run: Callable[..., list[int]], admin: Admin, filled: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(record: ConsumerRecord) -> bytes:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("kclient.cli.consume.value_line", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(filled, group=group)
    assert committed(admin, group, filled) == [0, 0]
    assert run(filled, group=group, exit_at_end=True) == list(range(20))
