"""What brokers ask of the controller, on the controller's own listener: a second broker beside the one of this node."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
import pytest_asyncio

from kclient import errors
from kclient.errors import ProtocolError
from kclient.protocol import Message
from kclient.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kclient.protocol.messages.alter_partition import AlterPartitionRequest
from kclient.protocol.messages.api_versions import ApiVersionsRequest
from kclient.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from kclient.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from kclient.protocol.messages.broker_registration import BrokerRegistrationRequest
from kclient.protocol.messages.create_topics import CreateTopicsRequest
from kclient.protocol.messages.records.metadata_log import ConfigRecord, PartitionChangeRecord
from kclient.protocol.messages.unregister_broker import UnregisterBrokerRequest
from refbroker.metadata.features import SUPPORTED_FEATURES
from refbroker.metadata.image import PartitionState
from refbroker.security.authorizer import STANDARD_AUTHORIZER
from refbroker.settings.inter_broker import PLAINTEXT
from tests.support.broker_harness import Harness
from tests.support.controlled_cluster import registration

CONTROLLER = "CONTROLLER"
LISTENERS: dict[str, Any] = {
    "listeners": f"{PLAINTEXT}://127.0.0.1:9092,{CONTROLLER}://127.0.0.1:9093",
    "controller_listener_names": CONTROLLER,
    "listener_security_protocol_map": f"{PLAINTEXT}:{PLAINTEXT},{CONTROLLER}:{PLAINTEXT}",
}
ONLY_CONTROLLERS = (56, 62, 63, 67, 73)


class Controller:
    """The controller of a broker with the id 1, and another broker, 2."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.harness = Harness(directory, **LISTENERS, **settings)
        self.harness.connection.listener = CONTROLLER
        self.epoch = -1

    @property
    def image(self) -> Any:
        return self.harness.broker.image

    def send(self, request: Message) -> Any:
        return self.harness.send(request, request.max_version)

    def register(self, node: int = 2) -> Any:
        request = registration(node, incarnation=self.image.next_offset)
        request.cluster_id = self.harness.broker.cluster_id
        request.features = [
            BrokerRegistrationRequest.Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in SUPPORTED_FEATURES.items()
        ]
        answer = self.send(request)
        self.epoch = answer.broker_epoch
        return answer

    def beat(self, **changed: Any) -> Any:
        request = BrokerHeartbeatRequest(
            broker_id=2, broker_epoch=self.epoch, current_metadata_offset=self.image.next_offset
        )
        return self.send(msgspec.structs.replace(request, **changed))

    def partition(self) -> PartitionState:
        state: PartitionState = self.image.partition("t", 0)
        return state


@pytest_asyncio.fixture(name="controller")
async def controller_with_two_brokers(tmp_path: Path) -> AsyncIterator[Controller]:
    made = Controller(tmp_path / "data")
    assert made.register().error_code == 0
    assert not made.beat().is_fenced
    yield made
    made.harness.close()


@pytest_asyncio.fixture(name="topic")
async def replicated_topic(controller: Controller) -> UUID:
    """The id of the topic `t` with one partition on both brokers, which 2 leads."""
    one = CreateTopicsRequest
    assignment = one.CreatableReplicaAssignment(partition_index=0, broker_ids=[2, 1])
    topic = one.CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=[assignment])
    (answer,) = controller.send(one(topics=[topic])).topics
    assert answer.error_code == 0, answer.error_message
    topic_id: UUID = answer.topic_id
    return topic_id


async def test_versions_on_each_listener_are_those_of_its_role(controller: Controller) -> None:
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    found = {}
    for listener in (PLAINTEXT, CONTROLLER):
        controller.harness.connection.listener = listener
        found[listener] = {api.api_key for api in controller.send(request).api_keys}
    assert found[CONTROLLER] - found[PLAINTEXT] == set(ONLY_CONTROLLERS)
    assert not found[CONTROLLER] & {0, 2, 3, 8, 11, 22}
    # Clients may ask any broker to unregister one.
    assert all(UnregisterBrokerRequest.api_key in keys for keys in found.values())


async def test_a_listener_of_clients_has_no_apis_of_controllers(controller: Controller) -> None:
    controller.harness.connection.listener = PLAINTEXT
    with pytest.raises(ProtocolError, match="has no API 63"):
        controller.beat()


async def test_a_topic_is_placed_on_both_brokers(controller: Controller) -> None:
    topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=4, replication_factor=2)
    (answer,) = controller.send(CreateTopicsRequest(topics=[topic])).topics
    assert answer.error_code == 0, answer.error_message
    states = controller.image.topics["t"].partitions.values()
    assert all(sorted(state.replicas) == sorted(state.isr) == [1, 2] for state in states)
    assert sorted(state.leader for state in states) == [1, 1, 2, 2]


async def test_a_leader_changes_the_in_sync_set(controller: Controller, topic: UUID) -> None:
    one, state = AlterPartitionRequest, controller.partition()
    data = one.PartitionData(
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        new_isr_with_epochs=[one.BrokerState(broker_id=2, broker_epoch=controller.epoch)],
    )
    request = one(broker_id=2, broker_epoch=controller.epoch)
    request.topics = [one.TopicData(topic_id=topic, partitions=[data])]
    answer = controller.send(request).topics[0].partitions[0]
    assert (answer.error_code, answer.isr, controller.partition().isr) == (0, [2], [2])


async def test_a_broker_that_is_silent_loses_its_leaderships(controller: Controller, topic: UUID) -> None:
    controller.harness.clock.step(9001)
    controller.harness.broker.controller.fence_expired()
    assert controller.image.brokers[2].fenced
    assert not controller.image.brokers[1].fenced
    assert (controller.partition().leader, controller.partition().isr) == (1, [1])


async def test_no_other_broker_takes_the_id_of_the_controllers_own(controller: Controller) -> None:
    assert controller.register(1).error_code == errors.DuplicateBrokerRegistrationError.code
    controller.harness.clock.step(9001)
    assert controller.register(1).error_code == errors.DuplicateBrokerRegistrationError.code
    assert not controller.image.brokers[1].fenced


async def test_a_broker_that_leads_shuts_down_in_two_steps(controller: Controller, topic: UUID) -> None:
    assert not controller.beat(want_shut_down=True).should_shut_down
    assert controller.partition().leader == 1
    assert controller.beat(want_shut_down=True).should_shut_down
    assert controller.image.brokers[2].fenced


@pytest.mark.parametrize("enabled", ["true", "false"])
async def test_preferred_leaders_are_elected_at_intervals_if_enabled(tmp_path: Path, enabled: str) -> None:
    controller = Controller(tmp_path / "data", auto_leader_rebalance_enable=enabled)
    controller.register()
    controller.beat()
    one = CreateTopicsRequest
    assignment = one.CreatableReplicaAssignment(partition_index=0, broker_ids=[2, 1])
    topic = one.CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=[assignment])
    controller.send(one(topics=[topic]))
    topic_id = controller.image.topics["t"].topic_id
    change = PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=1)
    controller.harness.broker.controller.append([change])
    controller.harness.broker.controller.balance_leaders()
    assert controller.partition().leader == (2 if enabled == "true" else 1)
    controller.harness.close()


async def test_unclean_leaders_are_elected_at_intervals_where_allowed(controller: Controller, topic: UUID) -> None:
    parts = controller.harness.broker
    change = PartitionChangeRecord(partition_id=0, topic_id=topic, isr=[2], leader=2)
    parts.controller.append([change])
    controller.harness.clock.step(9001)
    parts.controller.fence_expired()
    parts.controller.elect_unclean_leaders()
    assert controller.partition().leader == -1
    allow = ConfigRecord(resource_type=2, resource_name="t", name="unclean.leader.election.enable", value="true")
    parts.controller.append([allow])
    parts.controller.elect_unclean_leaders()
    assert (controller.partition().leader, controller.partition().isr) == (1, [1])


async def test_registered_brokers_get_producer_ids_and_assign_directories(controller: Controller, topic: UUID) -> None:
    block = controller.send(AllocateProducerIdsRequest(broker_id=2, broker_epoch=controller.epoch))
    assert (block.error_code, block.producer_id_len) == (0, 1000)
    one = AssignReplicasToDirsRequest
    directory = controller.image.brokers[2].record.log_dirs[0]
    data = one.DirectoryData(
        id=directory, topics=[one.TopicData(topic_id=topic, partitions=[one.PartitionData(partition_index=0)])]
    )
    answer = controller.send(one(broker_id=2, broker_epoch=controller.epoch, directories=[data]))
    assert (answer.error_code, answer.directories[0].topics[0].partitions[0].error_code) == (0, 0)
    assert controller.partition().directories[0] == directory


async def test_an_unregistered_broker_is_refused_until_it_registers_again(controller: Controller, topic: UUID) -> None:
    assert controller.send(UnregisterBrokerRequest(broker_id=2)).error_code == 0
    assert (controller.partition().leader, 2 in controller.image.brokers) == (1, False)
    stale = errors.StaleBrokerEpochError.code
    assert controller.beat().error_code == stale
    for request in (AlterPartitionRequest, AllocateProducerIdsRequest, AssignReplicasToDirsRequest):
        assert controller.send(request(broker_id=2, broker_epoch=controller.epoch)).error_code == stale
    assert controller.send(UnregisterBrokerRequest(broker_id=2)).error_code == errors.BrokerIdNotRegisteredError.code
    assert controller.register().error_code == 0


async def test_brokers_need_cluster_action_and_who_unregisters_alter(tmp_path: Path) -> None:
    controller = Controller(tmp_path / "data", authorizer_class_name=STANDARD_AUTHORIZER)
    denied = errors.ClusterAuthorizationError.code
    assert controller.register().error_code == denied
    assert controller.beat().error_code == denied
    for request in (
        AlterPartitionRequest(),
        AllocateProducerIdsRequest(),
        AssignReplicasToDirsRequest(),
        UnregisterBrokerRequest(),
    ):
        assert controller.send(request).error_code == denied
    controller.harness.close()
