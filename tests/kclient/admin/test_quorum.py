"""The quorum of controllers, as a broker describes it, and changes of its voters."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kclient.admin.quorum import (
    QuorumInfo,
    QuorumReplica,
    RaftVoterEndpoint,
    add_raft_voter,
    describe_metadata_quorum,
    remove_raft_voter,
)
from kclient.errors import (
    ClusterAuthorizationError,
    DuplicateVoterError,
    KafkaError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
    VoterNotFoundError,
)
from kclient.net.cluster import Cluster as KnownCluster
from kclient.net.manager import ANY_NODE
from kclient.protocol import Message
from kclient.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from kclient.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kclient.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from kclient.types import Node
from tests.kclient.admin.scripted import Cluster, ScriptedCore, finished, nodes_asked, soon

Answer = DescribeQuorumResponse
DIRECTORY = UUID(int=77)
ENDPOINT = RaftVoterEndpoint("CONTROLLER", "h", 9093)


def quorum(leader: int = 1, code: int = 0, version: int = 2) -> Answer:
    def state(**fields: Any) -> Answer.ReplicaState:
        if version < 2:
            fields.pop("replica_directory_id", None)
        return Answer.ReplicaState(**fields)

    partition = Answer.PartitionData(
        error_code=code,
        leader_id=leader,
        leader_epoch=4,
        high_watermark=100,
        current_voters=[
            state(replica_id=1, replica_directory_id=DIRECTORY, log_end_offset=101, last_fetch_timestamp=1_000),
            state(replica_id=2, log_end_offset=-1),
        ],
        observers=[state(replica_id=3, log_end_offset=90, last_caught_up_timestamp=900)],
    )
    return Answer(
        topics=[Answer.TopicData(topic_name="__cluster_metadata", partitions=[partition])],
        nodes=[]
        if version < 2
        else [Answer.Node(node_id=1, listeners=[Answer.Listener(name="CONTROLLER", host="h", port=9093)])],
    )


def described(*answers: Message, **core: Any) -> Any:
    left = list(answers)
    asked = ScriptedCore(Cluster(DescribeQuorum=lambda node, request: left.pop(0)), **core)
    found = finished(describe_metadata_quorum(asked, soon()))
    assert not left
    return found


def test_the_quorum_has_a_leader_voters_and_observers() -> None:
    assert described(quorum()) == QuorumInfo(
        1,
        4,
        100,
        (QuorumReplica(1, DIRECTORY, 101, 1_000), QuorumReplica(2, None, -1)),
        (QuorumReplica(3, None, 90, None, 900),),
        {1: (ENDPOINT,)},
    )


def test_an_old_broker_knows_no_times_and_no_directories() -> None:
    found = described(quorum(version=0), newest={DescribeQuorumRequest: 0})
    assert found.voters == (QuorumReplica(1, None, 101), QuorumReplica(2, None, -1))
    assert found.nodes == {}


def test_a_quorum_in_an_election_has_no_leader() -> None:
    assert described(quorum(leader=-1)).leader_id is None


def test_another_broker_is_asked_if_the_first_knows_an_old_controller() -> None:
    stale = quorum(code=NotLeaderOrFollowerError.code)
    answers: list[Message] = [Answer(error_code=41), stale, stale, stale, quorum()]
    core = ScriptedCore(Cluster(DescribeQuorum=lambda node, request: answers.pop(0)))
    core.engine.metadata.cluster = KnownCluster(brokers={node: Node(node, "h", node) for node in (1, 2, 3)})
    assert finished(describe_metadata_quorum(core, soon())).leader_id == 1
    assert nodes_asked(core, DescribeQuorumRequest) == [ANY_NODE, 1, 2, 3, 1]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(error_code=ClusterAuthorizationError.code, error_message="no"), ClusterAuthorizationError),
        (Answer(), KafkaError),
    ],
    ids=["refused", "empty"],
)
def test_an_answer_without_a_quorum_is_an_error(answer: Answer, error: type[KafkaError]) -> None:
    with pytest.raises(error, match=r"no|0 partitions"):
        described(answer)


def test_a_voter_is_added_with_its_addresses_once_it_has_caught_up() -> None:
    left = [RequestTimedOutError.code, 0]
    core = ScriptedCore(
        Cluster(AddRaftVoter=lambda node, request: AddRaftVoterResponse(error_code=left.pop(0), error_message=None))
    )
    finished(add_raft_voter(core, 3, DIRECTORY, ENDPOINT, "the cluster", soon("add_raft_voter")))
    requests = [request for _, request, _ in core.asked if isinstance(request, AddRaftVoterRequest)]
    assert len(requests) == 2
    request = requests[0]
    assert (request.voter_id, request.voter_directory_id, request.cluster_id) == (3, DIRECTORY, "the cluster")
    assert [(each.name, each.host, each.port) for each in request.listeners] == [tuple(ENDPOINT)]


def test_a_voter_is_removed_by_its_id_and_directory() -> None:
    core = ScriptedCore(Cluster(RemoveRaftVoter=lambda node, request: RemoveRaftVoterResponse()))
    finished(remove_raft_voter(core, 3, DIRECTORY, None, soon()))
    ((_, request, _),) = core.asked
    assert isinstance(request, RemoveRaftVoterRequest)
    assert (request.voter_id, request.voter_directory_id, request.cluster_id) == (3, DIRECTORY, None)


def test_a_refused_change_of_voters_says_what_to_look_at() -> None:
    core = ScriptedCore(
        Cluster(
            AddRaftVoter=lambda node, request: AddRaftVoterResponse(
                error_code=DuplicateVoterError.code, error_message="3 is in the set of voters"
            ),
            RemoveRaftVoter=lambda node, request: RemoveRaftVoterResponse(error_code=VoterNotFoundError.code),
        )
    )
    with pytest.raises(DuplicateVoterError, match="3 is in the set of voters; describe_metadata_quorum shows"):
        finished(add_raft_voter(core, 3, DIRECTORY, [ENDPOINT], None, soon()))
    with pytest.raises(VoterNotFoundError, match="each with the id of its directory"):
        finished(remove_raft_voter(core, 3, DIRECTORY, None, soon()))


@pytest.mark.parametrize("directory", ["AAAAAAAAAAAAAAAAAAAATQ", None, 77])
def test_the_directory_of_a_voter_is_a_uuid(directory: Any) -> None:
    core = ScriptedCore(Cluster())
    with pytest.raises(TypeError, match=r"remove_raft_voter\(directory_id=\) takes a UUID"):
        finished(remove_raft_voter(core, 3, directory, None, soon("remove_raft_voter")))


def test_an_address_is_written_as_in_a_list_of_listeners() -> None:
    assert str(ENDPOINT) == "CONTROLLER://h:9093"
    assert str(RaftVoterEndpoint("C", "::1", 1)) == "C://[::1]:1"
