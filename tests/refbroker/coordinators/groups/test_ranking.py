"""Whose turn it is to receive or give a partition, as the number of partitions of each subscriber changes."""

from __future__ import annotations

from refbroker.coordinators.groups.assignors.ranking import Ranking


def receivers(ranking: Ranking, sizes: dict[str, int], turns: int) -> str:
    """Return who receives in so many turns, and count what each is given."""
    found = ""
    for _ in range(turns):
        receiver = ranking.next_receiver()
        sizes[receiver] += 1
        found += receiver
    return found


def givers(ranking: Ranking, sizes: dict[str, int], turns: int) -> str:
    """Return who gives in so many turns, and count what each gives away."""
    found = ""
    for _ in range(turns):
        giver = ranking.next_giver()
        assert giver is not None
        sizes[giver] -= 1
        found += giver
    return found


def test_receivers_take_turns_and_are_joined_by_those_who_had_one_more() -> None:
    sizes = {"a": 0, "b": 0, "c": 1, "d": 3}
    assert receivers(Ranking("abcd", sizes), sizes, 12) == "ab" + "abc" + "abc" + "abcd"


def test_givers_take_turns_from_the_last_and_are_joined_by_those_who_had_one_less() -> None:
    sizes = {"a": 1, "b": 3, "c": 4, "d": 4}
    assert givers(Ranking("abcd", sizes), sizes, 12) == "dc" + "dcb" + "dcb" + "dcba"


def test_every_subscriber_gives_again_once_all_have_given() -> None:
    sizes = {"a": 3, "b": 3}
    assert givers(Ranking("ab", sizes), sizes, 6) == "bababa"


def test_a_giver_that_was_omitted_is_asked_no_more() -> None:
    for omitted, others in (("d", "cb"), ("c", "db"), ("b", "cd")):
        sizes = {"a": 0, "b": 3, "c": 3, "d": 3}
        ranking = Ranking("abcd", sizes)
        while givers(ranking, sizes, 1) != omitted:
            pass
        sizes[omitted] += 1
        ranking.exclude_giver()
        rest = givers(ranking, sizes, 5)
        assert set(rest) == set(others), (omitted, rest)


def test_those_next_below_give_when_all_above_them_are_omitted() -> None:
    sizes = {"a": 0, "b": 1, "c": 5}
    ranking = Ranking("abc", sizes)
    assert ranking.next_giver() == "c"
    ranking.exclude_giver()
    assert ranking.next_giver() == "b"
    assert ranking.next_receiver() == "a"
    assert ranking.is_balanced


def test_nobody_gives_when_everybody_is_omitted() -> None:
    ranking = Ranking("ab", {"a": 1, "b": 2})
    for giver in ("b", "a"):
        assert ranking.next_giver() == giver
        ranking.exclude_giver()
    assert [ranking.next_giver() for _ in range(3)] == [None] * 3


def test_the_levels_are_balanced_when_they_are_one_apart() -> None:
    sizes = {"a": 0, "b": 3}
    ranking = Ranking("ab", sizes)
    apart = []
    for _ in range(3):
        givers(ranking, sizes, 1)
        receivers(ranking, sizes, 1)
        apart.append(ranking.is_balanced)
    assert apart == [False, True, True]
