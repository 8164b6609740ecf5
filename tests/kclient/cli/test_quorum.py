"""What `kclient quorum` makes of its arguments and of the quorum."""

from __future__ import annotations

from uuid import UUID

import pytest
import typer

from kclient.admin import QuorumInfo, QuorumReplica, RaftVoterEndpoint
from kclient.cli.quorum import _directory, _endpoint, _max_lag


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("CONTROLLER://host:9093", ("CONTROLLER", "host", 9093)),
        ("C://[::1]:1", ("C", "::1", 1)),
    ],
)
def test_an_endpoint_is_written_as_a_listener(text: str, endpoint: tuple[str, str, int]) -> None:
    assert _endpoint(text) == RaftVoterEndpoint(*endpoint)
    assert str(_endpoint(text)) == text


@pytest.mark.parametrize("text", ["host:9093", "C://host", "C://:1", "://host:1", "C://host:port"])
def test_an_endpoint_without_its_parts_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not LISTENER://HOST:PORT"):
        _endpoint(text)


def test_a_directory_id_is_written_as_kafka_writes_it() -> None:
    assert _directory("AAAAAAAAAAAAAAAAAAAAAQ") == UUID(int=1)
    for text in ("", "AAAA", "00000000-0000-0000-0000-000000000001", "ÄAAAAAAAAAAAAAAAAAAAAQ"):
        with pytest.raises(typer.BadParameter, match="is not an id of 22 characters"):
            _directory(text)


def quorum(*voters: QuorumReplica, leader: int | None = 1) -> QuorumInfo:
    return QuorumInfo(leader, 1, 0, voters, ())


@pytest.mark.parametrize(
    ("info", "lag"),
    [
        (quorum(QuorumReplica(1, None, 100)), (0, 0)),
        (quorum(QuorumReplica(1, None, 100, 5, 50), QuorumReplica(2, None, 90, 5, 30)), (10, 20)),
        (quorum(QuorumReplica(1, None, 100, 5, 50), QuorumReplica(2, None, 90)), (10, None)),
        (quorum(QuorumReplica(1, None, 100), leader=None), (None, None)),
    ],
    ids=["alone", "behind", "unknown", "no leader"],
)
def test_the_lag_is_that_of_the_voter_that_is_furthest_behind(info: QuorumInfo, lag: tuple[int, int]) -> None:
    assert _max_lag(info) == lag
