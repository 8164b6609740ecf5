"""Group members made with raw requests, so that a test controls what each member reports and owns."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable
from typing import Any

from kclient.config import ClientConfig
from kclient.net.engine import Engine
from kclient.net.manager import ANY_NODE
from kclient.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kclient.protocol.log_records import encode_versioned
from kclient.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest
from kclient.protocol.messages.join_group import JoinGroupRequest
from kclient.protocol.messages.sync_group import SyncGroupRequest
from kclient.types import TopicPartition
from tests.support.patience import ANSWER
from tests.support.waiting import result_of

NOT_YET = (14, 15, 16)  # the coordinator loads, does not exist yet, or moved
MEMBER_ID_REQUIRED = 79
CLIENT_ID = "member-of-a-test"


class GroupMembers:
    """Creates members that stay in their groups until their session ends; use it as a context manager."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._engine = Engine(
            ClientConfig.from_options({"bootstrap_servers": bootstrap_servers, "client_id": CLIENT_ID})
        )
        self._engine.start()

    def __enter__(self) -> GroupMembers:
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.close(5.0)

    def join(self, group: str, assignment: Iterable[TopicPartition], *, instance_id: str | None = None) -> str:
        """Join a classic group as its only member, which assigns itself these partitions; return the member id."""
        partitions = list(assignment)
        topics = sorted({partition.topic for partition in partitions})
        metadata = encode_versioned(ConsumerProtocolSubscription(topics=topics, rack_id="r1"), 3)
        member_id = ""
        while True:
            protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=metadata)
            joined = self._ask(
                group,
                JoinGroupRequest(
                    group_id=group,
                    session_timeout_ms=45_000,
                    rebalance_timeout_ms=60_000,
                    member_id=member_id,
                    group_instance_id=instance_id,
                    protocol_type="consumer",
                    protocols=[protocol],
                ),
            )
            if joined.error_code != MEMBER_ID_REQUIRED:
                break
            member_id = joined.member_id
        assert joined.error_code == 0, joined
        kind = ConsumerProtocolAssignment
        value = kind()
        for topic in topics:
            numbers = [number for name, number in partitions if name == topic]
            value.assigned_partitions.append(kind.TopicPartition(topic=topic, partitions=numbers))
        synced = self._ask(
            group,
            SyncGroupRequest(
                group_id=group,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                group_instance_id=instance_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[
                    SyncGroupRequest.SyncGroupRequestAssignment(
                        member_id=joined.member_id, assignment=encode_versioned(value, 3)
                    )
                ],
            ),
        )
        assert synced.error_code == 0, synced
        return str(joined.member_id)

    def join_with_consumer_protocol(self, group: str, topic: str) -> str:
        """Join a group of KIP-848 and take the partitions that the broker assigns; return the member id."""
        member_id = str(uuid.uuid4())
        owned: list[Any] = []
        epoch = 0
        for attempt in itertools.count():
            first = attempt == 0
            answer = self._ask(
                group,
                ConsumerGroupHeartbeatRequest(
                    group_id=group,
                    member_id=member_id,
                    member_epoch=epoch,
                    rebalance_timeout_ms=60_000 if first else -1,
                    subscribed_topic_names=[topic] if first else None,
                    topic_partitions=[] if first else owned,
                ),
            )
            assert answer.error_code == 0, answer
            epoch = answer.member_epoch
            if answer.assignment is not None:
                owned = [
                    ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
                    for each in answer.assignment.topic_partitions
                ]
            elif owned:
                return member_id
        raise AssertionError("not reached")

    def _ask(self, group: str, request: Any) -> Any:
        """Send a request to a group's coordinator; repeat it while no coordinator is available."""
        while True:
            found = self._call(
                ANY_NODE, FindCoordinatorRequest, FindCoordinatorRequest(coordinator_keys=[group])
            ).coordinators[0]
            if found.error_code in NOT_YET:
                continue
            assert found.error_code == 0, found
            if found.node_id not in self._engine.metadata.cluster.brokers:
                self._engine.metadata.request_update()
                continue
            answer = self._call(found.node_id, type(request), request)
            if answer.error_code not in NOT_YET:
                return answer

    def _call(self, node: int, kind: Any, request: Any) -> Any:
        return result_of(self._engine.call(node, kind, lambda version: request, timeout=ANSWER), ANSWER + 1)
