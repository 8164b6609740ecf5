"""A random history of a cluster: what brokers and clients ask of the controller, and what refbroker's decides.

Each step is a line of ControllerPlans.java, and the answer that this program must give to it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any
from uuid import UUID

import msgspec

from kclient.errors import KafkaError
from kclient.protocol import Message
from kclient.protocol.log_records import decode_metadata_record
from kclient.protocol.messages.alter_partition import AlterPartitionRequest
from kclient.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kclient.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from kclient.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from kclient.protocol.messages.elect_leaders import ElectLeadersRequest
from kclient.protocol.messages.records.metadata_log import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    RemoveTopicRecord,
)
from refbroker.controller import balance, brokers
from refbroker.controller.directory_assignments import plan_assignment
from refbroker.controller.elections import plan_election
from refbroker.controller.heartbeats import fence_expired, plan_heartbeat
from refbroker.controller.isr import plan_alter_partition
from refbroker.controller.partition_changes import Election
from refbroker.controller.partition_index import PartitionId
from refbroker.controller.reassignments import plan_cancellation, plan_reassignment
from refbroker.metadata.features import ELIGIBLE_LEADER_REPLICAS_VERSION
from refbroker.metadata.image import TOPIC_RESOURCE
from refbroker.metadata.versions import DIRECTORIES, ELIGIBLE_LEADERS, encode_record
from refbroker.runtime.error_codes import code_of
from tests.support.controlled_cluster import CLUSTER_ID, SESSION_MS, ControlledCluster, directories_of, registration

LEVELS = (7, 11, 12, 16, 17, 22, 23, 29, 30)
MOST_BROKERS = 7


class Step(msgspec.Struct):
    """A line for Kafka, and what it must answer.

    Attributes:
        line: as ControllerPlans.java reads it.
        answer: the answer without its records.
        records: the records, as `sorted_records` sorts them.
    """

    line: str
    answer: str
    records: list[str]


def sorted_records(texts: Iterable[str]) -> list[str]:
    """Return records, in hexadecimal; changes of partitions that follow each other are sorted.

    Kafka finds these partitions in hash tables, so that their order means nothing.
    """
    found: list[str] = []
    for is_change, group in groupby(texts, lambda text: isinstance(decoded(text), PartitionChangeRecord)):
        some = list(group)
        found += sorted(some) if is_change else some
    return found


def decoded(text: str) -> Message:
    """Return a record."""
    return decode_metadata_record(bytes.fromhex(text))


def hexed(records: Iterable[Message], level: int) -> list[str]:
    """Return the records in hexadecimal, sorted."""
    return sorted_records(encode_record(record, level).hex() for record in records)


class History:
    """A cluster and the steps so far.

    Parameters:
        rng: decides all.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.level = rng.choice(LEVELS)
        has_elr = self.level >= ELIGIBLE_LEADERS and rng.random() < 0.8
        self.cluster = ControlledCluster(level=self.level, has_eligible_leaders=has_elr)
        first = hexed(self.cluster.log, self.level)
        self.steps = [Step("\t".join(["new", CLUSTER_ID, str(SESSION_MS), *first]), "ok", [])]
        self._topics = 0
        for node in range(rng.randint(1, MOST_BROKERS)):
            self._register(node)
            self._heartbeat(node, calm=True)

    def run(self, count: int) -> list[Step]:
        """Take so many steps, or as many as Kafka can follow, and return all."""
        actions: list[tuple[float, Callable[[], None]]] = [
            (2, lambda: self._register(self.rng.randrange(MOST_BROKERS))),
            (12, lambda: self._heartbeat(self.rng.randrange(MOST_BROKERS))),
            (3, self._pass_time),
            (3, self._expire),
            (4, self._create),
            (0.5, self._delete),
            (1, self._configure),
            (20, self._alter_partition),
            (5, self._elect),
            (6, self._reassign),
            (0.7, self._unregister),
            (1, lambda: self._balance("balance", balance.plan_preferred_leaders)),
            (1, lambda: self._balance("unclean", balance.plan_unclean_leaders)),
            (3, self._assign_directories),
            (0.1, self._lose_feature),
        ]
        weights = [weight for weight, _ in actions]
        for _ in range(count):
            eligible = {
                (topic.topic_id, state.partition_id): {*state.isr, *state.eligible_leader_replicas}
                for topic in self.cluster.image.topics.values()
                for state in topic.partitions.values()
            }
            end = len(self.steps)
            self.rng.choices([action for _, action in actions], weights)[0]()
            if self._has_removed_eligible(eligible):
                # Kafka keeps them, so its records of this step are others.
                del self.steps[end:]
                break
            if self._is_beyond_kafka():
                break
        return self.steps

    def _has_removed_eligible(self, before: Mapping[tuple[UUID, int], set[int]]) -> bool:
        """Return whether a replica that Kafka considers eligible is no longer a replica."""
        plans = self.cluster.plans
        return plans.has_eligible_leaders and any(
            before.get((topic.topic_id, state.partition_id), set()) - set(state.replicas)
            and len(state.isr) < plans.rules.min_in_sync_replicas(topic.name)
            for topic in self.cluster.image.topics.values()
            for state in topic.partitions.values()
        )

    def _is_beyond_kafka(self) -> bool:
        """Return whether a possible leader of a partition is no longer a replica: Kafka's controller then fails."""
        topics = self.cluster.image.topics.values()
        return any(
            not {*state.isr, *state.last_known_elr} <= set(state.replicas)
            for topic in topics
            for state in topic.partitions.values()
        )

    # The outcome of a step

    def _step(self, line: str, plan: Callable[[], tuple[str, Sequence[Message]]]) -> bool:
        """Note what is planned, and replay its records; return whether there was no error."""
        try:
            response, records = plan()
        except KafkaError as error:
            self.steps.append(Step(line, f"error\t{code_of(error)}", []))
            return False
        self.steps.append(Step(line, f"ok\t{response}", hexed(records, self.level)))
        self.cluster.commit(records)
        return True

    def _replay(self, records: Sequence[Message]) -> None:
        self.steps.append(Step("\t".join(["replay", *hexed(records, self.level)]), "ok", []))

    # Brokers

    def _register(self, node: int) -> None:
        rng, image = self.rng, self.cluster.image
        known = image.brokers.get(node)
        request = registration(
            node,
            incarnation=rng.choice((image.next_offset, image.next_offset, node)),
            directories=1 + node % 3,
            previous=rng.choice((-1, -1 if known is None else known.broker_epoch)),
        )
        if known is not None and rng.random() < 0.2:
            request.incarnation_id = known.incarnation_id
        if rng.random() < 0.1:
            request = rng.choice(
                [
                    msgspec.structs.replace(request, cluster_id="another"),
                    msgspec.structs.replace(request, log_dirs=[]),
                    msgspec.structs.replace(request, log_dirs=[UUID(int=5)]),
                    msgspec.structs.replace(request, log_dirs=request.log_dirs * 2),
                    msgspec.structs.replace(request, log_dirs=directories_of((node + 1) % MOST_BROKERS)),
                    msgspec.structs.replace(request, features=request.features[:1]),
                    msgspec.structs.replace(request, features=request.features[1:]),
                    msgspec.structs.replace(request, is_migrating_zk_broker=True),
                ]
            )
        version = rng.choice((4, 4, 4, 3, 2, 1))
        line = "\t".join(["register", str(version), request.encode(version).hex()])
        request = type(request).decode(request.encode(version), version)
        cluster = self.cluster

        def plan() -> tuple[str, Sequence[Message]]:
            records, epoch = brokers.plan_registration(
                cluster.plans,
                cluster.liveness,
                request,
                version=version,
                cluster_id=CLUSTER_ID,
                kraft_version=0,
                broker_epoch=image.next_offset,
                now_ms=cluster.now_ms,
            )
            return str(epoch), records

        self._step(line, plan)

    def _heartbeat(self, node: int, *, calm: bool = False) -> None:
        rng, cluster = self.rng, self.cluster
        known = cluster.image.brokers.get(node)
        end = cluster.image.next_offset - 1
        request = BrokerHeartbeatRequest(
            broker_id=node,
            broker_epoch=10**12 if known is None or (rng.random() < 0.03 and not calm) else known.broker_epoch,
            current_metadata_offset=end if calm else rng.choice((end, end, end, rng.randint(-1, end))),
        )
        if not calm:
            request.want_fence = rng.random() < 0.1
            request.want_shut_down = rng.random() < 0.15 or (
                known is not None and known.in_controlled_shutdown and rng.random() < 0.7
            )
            own = directories_of(node, 1 + node % 3)
            if rng.random() < 0.05 and known is not None:
                # One directory stays: a broker without any stops.
                online = known.record.log_dirs
                request.offline_log_dirs = [
                    UUID(int=4242),
                    *rng.sample(online, rng.randint(0, max(len(online) - 1, 0))),
                ]
            if rng.random() < 0.1:
                request.cordoned_log_dirs = rng.sample(own, rng.randint(0, len(own)))
        plans = []

        def plan() -> tuple[str, Sequence[Message]]:
            made = plan_heartbeat(cluster.plans, cluster.liveness, request, cluster.now_ms)
            plans.append(made)
            flags = (made.response.is_caught_up, made.response.is_fenced, made.response.should_shut_down)
            return ",".join(str(flag).lower() for flag in flags), made.records

        if self._step(f"heartbeat\t{request.encode(2).hex()}", plan):
            plans[0].settle(cluster.image.next_offset - 1)

    def _pass_time(self) -> None:
        ms = self.rng.choice((1, 500, 3000, SESSION_MS, SESSION_MS + 1))
        self.cluster.now_ms += ms
        self.steps.append(Step(f"time\t{ms}", "ok", []))

    def _expire(self) -> None:
        # Kafka ends several sessions in an order of its own, so all but one are extended before.
        cluster = self.cluster
        expired = [
            node
            for node, one in cluster.image.brokers.items()
            if not cluster.liveness.has_session(node, one.broker_epoch, cluster.now_ms)
        ]
        for node in expired[1:]:
            self._heartbeat(node, calm=True)
        fenced: list[Message] = []
        while (records := fence_expired(cluster.plans, cluster.liveness, cluster.now_ms)) is not None:
            cluster.commit(records)
            fenced += records
        self.steps.append(Step("expire", "ok\t", hexed(fenced, self.level)))

    def _unregister(self) -> None:
        node = self.rng.randrange(MOST_BROKERS)
        self._step(f"unregister\t{node}", lambda: ("", brokers.unregister(self.cluster.plans, node)))

    # Topics

    def _create(self) -> None:
        rng, cluster = self.rng, self.cluster
        nodes = list(cluster.image.brokers)
        assignments = []
        for _ in range(rng.randint(1, 3)):
            replicas = rng.sample(nodes, min(len(nodes), rng.choice((1, 2, 3, 3, 3, 4))))
            if any(cluster.plans.is_active(node) for node in replicas):
                assignments.append(replicas)
        if not assignments or len(cluster.image.topics) >= 12:
            return
        self._topics += 1
        settings: dict[str, Any] = {"min_insync_replicas": str(rng.randint(1, 3))}
        if rng.random() < 0.2:
            settings["unclean_leader_election_enable"] = "true"
        before = len(cluster.log)
        cluster.create(f"topic-{self._topics}", *assignments, **settings)
        self._replay(cluster.log[before:])

    def _delete(self) -> None:
        # Of a partition without in-sync replicas, Kafka forgets to remove its directories, and fails with them later.
        topics = [
            topic
            for topic in self.cluster.image.topics.values()
            if all(state.isr for state in topic.partitions.values())
        ]
        if topics:
            records = [RemoveTopicRecord(topic_id=self.rng.choice(topics).topic_id)]
            self.cluster.commit(records)
            self._replay(records)

    def _configure(self) -> None:
        topics = list(self.cluster.image.topics)
        if not topics:
            return
        name, value = self.rng.choice(
            [
                ("min.insync.replicas", str(self.rng.randint(1, 4))),
                ("unclean.leader.election.enable", self.rng.choice(("true", "false"))),
            ]
        )
        topic = self.rng.choice(topics)
        records = [ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic, name=name, value=value)]
        self.cluster.commit(records)
        self._replay(records)

    def _lose_feature(self) -> None:
        if self.cluster.plans.has_eligible_leaders:
            records = [FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS_VERSION, feature_level=0)]
            self.cluster.commit(records)
            self._replay(records)

    def _any_partition(self) -> PartitionId | None:
        found = [
            PartitionId(topic.topic_id, number)
            for topic in self.cluster.image.topics.values()
            for number in topic.partitions
        ]
        if not found:
            return None
        return self.rng.choice(found) if self.rng.random() < 0.97 else PartitionId(UUID(int=3), 9)

    def _alter_partition(self) -> None:
        rng, image = self.rng, self.cluster.image
        chosen = self._any_partition()
        if chosen is None:
            return
        state = image.partition(*chosen)
        one = AlterPartitionRequest
        leader = 0 if state is None else state.leader
        if rng.random() < 0.05:
            leader = rng.randrange(MOST_BROKERS)
        data = one.PartitionData(partition_index=chosen.number)
        if state is not None:
            others = [node for node in state.replicas if node != leader]
            isr = [leader, *rng.sample(others, rng.randint(0, len(others)))]
            if rng.random() < 0.6:
                isr = [node for node in isr if node == leader or self.cluster.plans.is_active(node)]
            if rng.random() < 0.05:
                isr = rng.choice((others, isr * 2, [*isr, 99], []))
            data.leader_epoch = state.leader_epoch + rng.choice((0,) * 20 + (1, -1))
            data.partition_epoch = state.partition_epoch + rng.choice((0,) * 20 + (1, -1))
            recovering = state.leader_recovery_state if len(isr) == 1 else 0
            data.leader_recovery_state = recovering if rng.random() < 0.95 else 1 - recovering
            data.new_isr = isr
            data.new_isr_with_epochs = [one.BrokerState(broker_id=node, broker_epoch=self._epoch(node)) for node in isr]
        epoch = self._epoch(leader) if rng.random() < 0.98 else 1
        request = one(
            broker_id=leader,
            broker_epoch=epoch,
            topics=[one.TopicData(topic_id=chosen.topic_id, partitions=[data])],
        )
        version = rng.choice((2, 3, 3))
        if version == 2:
            data.new_isr_with_epochs = []
        else:
            data.new_isr = []

        def plan() -> tuple[str, Sequence[Message]]:
            made = plan_alter_partition(self.cluster.plans, request, version)
            return made.response.encode(version).hex(), made.records

        self._step("\t".join(["alter", str(version), request.encode(version).hex()]), plan)

    def _epoch(self, node: int) -> int:
        known = self.cluster.image.brokers.get(node)
        if known is None or self.rng.random() < 0.1:
            return -1
        return known.broker_epoch if self.rng.random() < 0.97 else known.broker_epoch + 1

    def _elect(self) -> None:
        chosen = self._any_partition()
        if chosen is None:
            return
        topic = self.cluster.image.topics_by_id.get(chosen.topic_id)
        name = "none" if topic is None else topic.name
        kind = self.rng.choice((Election.PREFERRED, Election.UNCLEAN))
        one = ElectLeadersRequest
        request = one(
            election_type=int(kind), topic_partitions=[one.TopicPartitions(topic=name, partitions=[chosen.number])]
        )
        self._each(
            f"elect\t{request.encode(2).hex()}", lambda: plan_election(self.cluster.plans, name, chosen.number, kind)
        )

    def _each(self, line: str, plan: Callable[[], Message | None]) -> None:
        """Note a step whose response has an error code for its only partition."""
        try:
            record = plan()
        except KafkaError as error:
            self.steps.append(Step(line, f"code\t{code_of(error)}", []))
        else:
            records = [] if record is None else [record]
            self.steps.append(Step(line, "code\t0", hexed(records, self.level)))
            self.cluster.commit(records)

    def _reassign(self) -> None:
        rng = self.rng
        chosen = self._any_partition()
        if chosen is None:
            return
        topic = self.cluster.image.topics_by_id.get(chosen.topic_id)
        name = "none" if topic is None else topic.name
        known = list(self.cluster.image.brokers)
        replicas: list[int] | None = None
        if rng.random() < 0.75:
            replicas = rng.sample(known, min(len(known), rng.randint(1, 4)))
            if rng.random() < 0.05:
                replicas = rng.choice(([], replicas * 2, [*replicas, 99]))
        may_change_count = rng.random() < 0.8
        one = AlterPartitionReassignmentsRequest
        wanted = one.ReassignablePartition(partition_index=chosen.number, replicas=replicas)
        request = one(
            topics=[one.ReassignableTopic(name=name, partitions=[wanted])],
            allow_replication_factor_change=may_change_count,
        )

        def plan() -> Message | None:
            plans = self.cluster.plans
            if replicas is None:
                return plan_cancellation(plans, name, chosen.number)
            return plan_reassignment(plans, name, chosen.number, replicas, may_change_count=may_change_count)

        self._each(f"reassign\t{request.encode(1).hex()}", plan)

    def _balance(self, line: str, plan: Callable[..., balance.BalancePlan]) -> None:
        self._step(line, lambda: ("", plan(self.cluster.plans).records))

    def _assign_directories(self) -> None:
        rng = self.rng
        chosen = self._any_partition()
        if chosen is None or self.level < DIRECTORIES:
            return
        state = self.cluster.image.partition(*chosen)
        node = rng.randrange(MOST_BROKERS)
        if state is not None and rng.random() < 0.9:
            node = rng.choice(state.replicas)
        one = AssignReplicasToDirsRequest
        directory = rng.choice(
            [*directories_of(node, 1 + node % 3), UUID(int=0), UUID(int=1), UUID(int=2), UUID(int=600)]
        )
        topic = one.TopicData(topic_id=chosen.topic_id, partitions=[one.PartitionData(partition_index=chosen.number)])
        request = one(
            broker_id=node,
            broker_epoch=self._epoch(node),
            directories=[one.DirectoryData(id=directory, topics=[topic])],
        )

        def plan() -> tuple[str, Sequence[Message]]:
            made = plan_assignment(self.cluster.plans, request)
            return made.response.encode(0).hex(), made.records

        self._step(f"assign\t{request.encode(0).hex()}", plan)
