"""A cluster as the plans of the controller see it: an image that replays their records, without a log or a broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from kclient.protocol import Message
from kclient.protocol.messages.alter_partition import AlterPartitionRequest
from kclient.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from kclient.protocol.messages.broker_registration import BrokerRegistrationRequest
from kclient.protocol.messages.records.metadata_log import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    TopicRecord,
)
from refbroker.controller import brokers
from refbroker.controller.cluster import Cluster
from refbroker.controller.heartbeats import HeartbeatPlan, fence_expired, plan_heartbeat
from refbroker.controller.isr import plan_alter_partition
from refbroker.controller.liveness import Liveness
from refbroker.controller.partition_index import PartitionIndex
from refbroker.metadata.features import ELIGIBLE_LEADER_REPLICAS_VERSION
from refbroker.metadata.image import TOPIC_RESOURCE, ClusterImage, PartitionState
from refbroker.metadata.versions import DIRECTORIES, LATEST, METADATA_VERSION

CLUSTER_ID = "a-cluster"
SESSION_MS = 9000


class ImageRules:
    """The rules of topics, from their own settings in the image, and Kafka's defaults."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image

    def min_in_sync_replicas(self, topic: str) -> int:
        return int(self._image.config(TOPIC_RESOURCE, topic).get("min.insync.replicas", "1"))

    def may_elect_unclean(self, topic: str) -> bool:
        return self._image.config(TOPIC_RESOURCE, topic).get("unclean.leader.election.enable") == "true"


class ControlledCluster:
    """The parts of a controller, and what it decided.

    Attributes:
        now_ms: its time, which tests move.
        log: all records so far.
    """

    def __init__(
        self,
        *,
        level: int = LATEST,
        has_eligible_leaders: bool = True,
        session_ms: int = SESSION_MS,
        now_ms: int = 1_000_000,
    ) -> None:
        self.now_ms = now_ms
        self.log: list[Message] = []
        self.image = ClusterImage()
        self.index = PartitionIndex(self.image)
        self.plans = Cluster(self.image, self.index, ImageRules(self.image))
        self.liveness = Liveness(self.image, session_ms, self.now_ms)
        self.commit([FeatureLevelRecord(name=METADATA_VERSION, feature_level=level)])
        if has_eligible_leaders:
            self.commit([FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS_VERSION, feature_level=1)])

    def commit(self, records: Sequence[Message]) -> None:
        """Replay records as if they had been stored."""
        for record in records:
            self.image.replay(record)
        self.image.next_offset += len(records)
        self.log += records
        self.index.follow(records)
        self.liveness.follow(records)

    # Brokers

    def plan_registration(self, request: BrokerRegistrationRequest, version: int) -> tuple[list[Message], int]:
        """Return the records that register a broker, and its epoch."""
        return brokers.plan_registration(
            self.plans,
            self.liveness,
            request,
            version=version,
            cluster_id=CLUSTER_ID,
            kraft_version=0,
            broker_epoch=self.image.next_offset,
            now_ms=self.now_ms,
        )

    def register(self, request: BrokerRegistrationRequest, version: int = 4) -> int:
        """Register a broker, and return its epoch."""
        records, epoch = self.plan_registration(request, version)
        self.commit(records)
        return epoch

    def plan_heartbeat(self, request: BrokerHeartbeatRequest) -> HeartbeatPlan:
        """Return what follows from a heartbeat."""
        return plan_heartbeat(self.plans, self.liveness, request, self.now_ms)

    def heartbeat(self, request: BrokerHeartbeatRequest) -> HeartbeatPlan:
        """Carry out a heartbeat."""
        plan = self.plan_heartbeat(request)
        self.commit(plan.records)
        plan.settle(self.image.next_offset - 1)
        return plan

    def start(self, node: int, *, rack: str | None = None, previous_epoch: int = -1) -> int:
        """Register a broker and unfence it; return its epoch."""
        epoch = self.register(
            registration(node, incarnation=self.image.next_offset, rack=rack, previous=previous_epoch)
        )
        assert not self.beat(node).response.is_fenced
        return epoch

    def beat(self, node: int, *, fence: bool = False, shut_down: bool = False) -> HeartbeatPlan:
        """Carry out the heartbeat of a broker that has read all metadata."""
        return self.heartbeat(
            BrokerHeartbeatRequest(
                broker_id=node,
                broker_epoch=self.image.brokers[node].broker_epoch,
                current_metadata_offset=self.image.next_offset - 1,
                want_fence=fence,
                want_shut_down=shut_down,
            )
        )

    def plan_expiry(self) -> list[Message] | None:
        """Return the records that fence a broker whose session has expired; None after the last one."""
        return fence_expired(self.plans, self.liveness, self.now_ms)

    def expire(self) -> None:
        """Fence all brokers whose session has expired."""
        while (records := self.plan_expiry()) is not None:
            self.commit(records)

    # Topics

    def configure(self, name: str, **settings: str) -> None:
        """Change settings of a topic."""
        self.commit(_configs(name, settings))

    def create(self, name: str, *assignments: Sequence[int], topic_id: UUID | None = None, **settings: str) -> UUID:
        """Create a topic with the given replicas of its partitions, of which the active ones are in sync."""
        topic_id = topic_id or UUID(int=1000 + self.image.next_offset)
        records: list[Message] = [TopicRecord(name=name, topic_id=topic_id), *_configs(name, settings)]
        for number, replicas in enumerate(assignments):
            isr = [node for node in replicas if self.plans.is_active(node)]
            directories = [self.plans.default_directory(node) for node in replicas]
            records.append(
                PartitionRecord(
                    partition_id=number,
                    topic_id=topic_id,
                    replicas=list(replicas),
                    isr=isr,
                    leader=isr[0],
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=directories if self.image.metadata_version >= DIRECTORIES else [],
                )
            )
        self.commit(records)
        return topic_id

    def alter_isr(self, topic: str, *isr: int, **changed: int) -> int:
        """Have the leader of partition 0 propose an in-sync set; return the error code of the partition.

        Parameters:
            changed: fields of the partition in the request, if they differ from the metadata.
        """
        state, one = self.partition(topic), AlterPartitionRequest
        data: dict[str, Any] = {
            "partition_index": 0,
            "leader_epoch": state.leader_epoch,
            "partition_epoch": state.partition_epoch,
            "leader_recovery_state": state.leader_recovery_state,
            **changed,
        }
        epochs = {node: broker.broker_epoch for node, broker in self.image.brokers.items()}
        members = [one.BrokerState(broker_id=node, broker_epoch=epochs.get(node, -1)) for node in isr]
        partition = one.PartitionData(new_isr_with_epochs=members, **data)
        request = one(
            broker_id=state.leader,
            broker_epoch=epochs[state.leader],
            topics=[one.TopicData(topic_id=self.image.topics[topic].topic_id, partitions=[partition])],
        )
        plan = plan_alter_partition(self.plans, request, 3)
        self.commit(plan.records)
        return plan.response.topics[0].partitions[0].error_code

    def partition(self, topic: str, number: int = 0) -> PartitionState:
        """Return the state of a partition."""
        state = self.image.partition(topic, number)
        assert state is not None
        return state


def _configs(topic: str, settings: Mapping[str, str]) -> list[Message]:
    return [
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic, name=setting.replace("_", "."), value=value)
        for setting, value in settings.items()
    ]


def directories_of(node: int, count: int = 1) -> list[UUID]:
    """Return the directories of a broker."""
    return [UUID(int=10_000 * (node + 1) + number) for number in range(count)]


def registration(
    node: int, *, incarnation: int, directories: int = 1, rack: str | None = None, previous: int = -1
) -> BrokerRegistrationRequest:
    """Return the registration of a broker."""
    return BrokerRegistrationRequest(
        broker_id=node,
        cluster_id=CLUSTER_ID,
        incarnation_id=UUID(int=77_000 + incarnation),
        listeners=[BrokerRegistrationRequest.Listener(name="PLAINTEXT", host="localhost", port=9000 + node)],
        features=[
            BrokerRegistrationRequest.Feature(name=METADATA_VERSION, min_supported_version=7, max_supported_version=30),
            BrokerRegistrationRequest.Feature(
                name=ELIGIBLE_LEADER_REPLICAS_VERSION, min_supported_version=0, max_supported_version=1
            ),
        ],
        rack=rack,
        log_dirs=directories_of(node, directories),
        previous_broker_epoch=previous,
    )
