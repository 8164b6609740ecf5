"""What `kclient consume --group` commits: what it printed, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from kclient.cli.membership import Membership
from kclient.net.runtime import ThreadRuntime
from kclient.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Polled:
    """The records of a poll, as far as their offsets go."""

    def __init__(self, following: Mapping[TopicPartition, int]) -> None:
        self._following = following

    def next_offsets(self) -> Mapping[TopicPartition, int]:
        return self._following


class Member:
    """A consumer in a group, whose partitions a test assigns.

    Attributes:
        positions: by assigned partition.
        commits: the offsets of each commit, in order.
    """

    def __init__(self) -> None:
        self.config = SimpleNamespace(group_id="g", auto_commit_interval_ms=5000)
        self.positions: dict[TopicPartition, int] = {}
        self.commits: list[dict[TopicPartition, int]] = []

    def assignment(self) -> set[TopicPartition]:
        return set(self.positions)

    def position(self, partition: TopicPartition) -> int:
        return self.positions[partition]

    def commit(self, offsets: Mapping[TopicPartition, int], timeout: float | None = None) -> None:
        self.commits.append(dict(offsets))

    def commit_async(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.commits.append(dict(offsets))


@pytest.fixture
def consumer() -> Member:
    return Member()


def joined(consumer: Any, positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> Membership:
    made = Membership(consumer, ends)
    consumer.positions = dict(positions)
    made.on_assigned(list(positions))
    return made


def print_to(member: Membership, following: Mapping[TopicPartition, int]) -> None:
    polled: Any = Polled(following)
    member.printed(polled)


def test_the_end_commits_what_was_printed_and_where_reading_began(consumer: Member) -> None:
    with joined(consumer, {T0: 3, T1: 7}, {}) as member:
        print_to(member, {T0: 5})
    assert consumer.commits == [{T0: 5, T1: 7}]


def test_an_interruption_commits_what_was_printed_before_it(consumer: Member) -> None:
    member = joined(consumer, {T0: 3}, {})

    def interrupted() -> None:
        with member:
            print_to(member, {T0: 5})
            consumer.positions[T0] = 9  # Polled, and not printed.
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert consumer.commits == [{T0: 5}]


def test_records_beyond_the_end_are_not_committed(consumer: Member) -> None:
    with joined(consumer, {T0: 3, T1: 0}, {T0: 5, T1: 4}) as member:
        print_to(member, {T0: 8, T1: 2})
        print_to(member, {T0: 9})
    assert consumer.commits == [{T0: 5, T1: 2}]


def test_an_end_that_the_group_has_passed_does_not_set_it_back(consumer: Member) -> None:
    with joined(consumer, {T0: 12}, {T0: 5}) as member:
        print_to(member, {T0: 15})
    assert consumer.commits == [{T0: 12}]


def test_a_partition_that_is_newer_than_the_ends_is_not_committed_further(consumer: Member) -> None:
    with joined(consumer, {T0: 0, T1: 0}, {T0: 5}) as member:
        print_to(member, {T1: 3})
    assert consumer.commits == [{T0: 0, T1: 0}]


def test_a_position_that_was_reset_is_committed_as_it_is(consumer: Member) -> None:
    with joined(consumer, {T0: 100}, {}) as member:
        print_to(member, {T0: 3})
    assert consumer.commits == [{T0: 3}]


def test_a_revoked_partition_is_committed_once_and_a_lost_one_is_not(consumer: Member) -> None:
    with joined(consumer, {T0: 1, T1: 1}, {}) as member:
        print_to(member, {T0: 2, T1: 2})
        member.on_revoked([T0])
        member.on_lost([T1])
        member.on_revoked([T0])
    assert consumer.commits == [{T0: 2}]


def test_leaving_the_group_after_the_end_commits_nothing_more(consumer: Member) -> None:
    with joined(consumer, {T0: 1}, {}) as member:
        pass
    member.on_revoked([T0])
    assert consumer.commits == [{T0: 1}]


def test_offsets_are_committed_from_time_to_time_if_they_moved(
    consumer: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(ThreadRuntime, "monotonic", staticmethod(lambda: now))
    member = joined(consumer, {T0: 1}, {})
    print_to(member, {T0: 2})
    assert consumer.commits == []
    now = 105.0
    print_to(member, {})
    assert consumer.commits == [{T0: 2}]
    now = 110.0
    print_to(member, {})
    print_to(member, {T0: 3})
    assert consumer.commits == [{T0: 2}]
    now = 115.0
    print_to(member, {})
    assert consumer.commits == [{T0: 2}, {T0: 3}]


def test_the_end_is_that_of_all_assigned_partitions(consumer: Member) -> None:
    member = joined(consumer, {T0: 5, T1: 3}, {T0: 5, T1: 4})
    assert not member.at_end
    consumer.positions[T1] = 6
    assert member.at_end


def test_a_member_without_partitions_waits_and_says_so_once(
    consumer: Member, capsys: pytest.CaptureFixture[str]
) -> None:
    member = joined(consumer, {}, {T0: 0})
    member.on_assigned([])
    assert not member.at_end
    assert capsys.readouterr().err == (
        "kclient: waiting for partitions: the group has not assigned any to this member yet\n"
    )
