"""Elections of leaders: an election that is not needed is no error, and the brokers' other errors are."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.admin.elections import ElectionType, elect_leaders
from kclient.errors import (
    AdminError,
    ClusterAuthorizationError,
    ElectionNotNeededError,
    PreferredLeaderNotAvailableError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from kclient.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kclient.types import TopicPartition
from tests.kclient.admin.scripted import Cluster, ScriptedCore, finished, soon

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
Answer = ElectLeadersResponse


def core_for(codes: dict[TopicPartition, int], *before: int, **core: Any) -> ScriptedCore:
    left = list(before)

    def elect(node: int, request: ElectLeadersRequest) -> ElectLeadersResponse:
        if left:
            return Answer(error_code=left.pop(0))
        by_topic: dict[str, list[ElectLeadersResponse.PartitionResult]] = {}
        for key, code in codes.items():
            result = Answer.PartitionResult(partition_id=key.partition, error_code=code)
            by_topic.setdefault(key.topic, []).append(result)
        return Answer(
            replica_election_results=[
                Answer.ReplicaElectionResult(topic=topic, partition_result=results)
                for topic, results in by_topic.items()
            ]
        )

    return ScriptedCore(Cluster(ElectLeaders=elect), **core)


def elect(core: ScriptedCore, kind: Any = ElectionType.PREFERRED, wanted: Any = None) -> Any:
    return finished(elect_leaders(core, kind, wanted, soon("elect_leaders")))


def requests(core: ScriptedCore) -> list[ElectLeadersRequest]:
    return [request for _, request, _ in core.asked if isinstance(request, ElectLeadersRequest)]


def test_an_election_that_is_not_needed_is_no_error() -> None:
    core = core_for({T0: 0, T1: ElectionNotNeededError.code})
    assert elect(core, wanted=[T1, T0]) == {T1: False, T0: True}
    (request,) = requests(core)
    assert request.topic_partitions is not None
    assert [(topic.topic, topic.partitions) for topic in request.topic_partitions] == [("t", [1, 0])]


def test_all_partitions_are_those_that_the_controller_names() -> None:
    core = core_for({U0: 0, T1: 0})
    assert elect(core, ElectionType.UNCLEAN) == {T1: True, U0: True}
    (request,) = requests(core)
    assert (request.topic_partitions, request.election_type) == (None, 1)


def test_a_leader_that_cannot_be_elected_is_an_error_without_repetition() -> None:
    core = core_for({T0: PreferredLeaderNotAvailableError.code, T1: UnknownTopicOrPartitionError.code, U0: 0})
    with pytest.raises(AdminError) as caught:
        elect(core, wanted=[T0, T1, U0])
    assert caught.value.results == {U0: True}
    assert isinstance(caught.value.errors[T0], PreferredLeaderNotAvailableError)
    assert isinstance(caught.value.errors[T1], UnknownTopicOrPartitionError)
    assert len(requests(core)) == 1


def test_a_controller_that_has_moved_is_asked_again_and_a_refusal_is_raised() -> None:
    core = core_for({T0: 0}, 41, ClusterAuthorizationError.code)
    with pytest.raises(ClusterAuthorizationError):
        elect(core, wanted=[T0])
    assert len(requests(core)) == 2


def test_a_partition_without_a_result_is_an_error() -> None:
    with pytest.raises(AdminError, match="did not contain u-0"):
        elect(core_for({T0: 0}), wanted=[T0, U0])


def test_no_partitions_are_no_request() -> None:
    core = core_for({})
    assert (elect(core, wanted=[]), core.asked) == ({}, [])


def test_unclean_elections_need_a_broker_that_knows_them() -> None:
    old = {ElectLeadersRequest: 0}
    assert elect(core_for({T0: 0}, newest=old), wanted=[T0]) == {T0: True}
    with pytest.raises(UnsupportedVersionError):
        elect(core_for({T0: 0}, newest=old), ElectionType.UNCLEAN, [T0])


@pytest.mark.parametrize("kind", ["preferred", 0, None])
def test_the_type_of_the_election_is_an_election_type(kind: Any) -> None:
    with pytest.raises(TypeError, match="elect_leaders takes an ElectionType"):
        elect(core_for({}), kind)
