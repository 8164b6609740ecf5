"""A random request of every API, for two brokers that must decide alike.

No request changes anything permanently when it is allowed: it only validates, is about something that is missing, or
sets what is set already. So brokers with the same topics stay alike. Elsewhere: random ACLs
(`random_acls`), the outcomes to expect (`authorized_outcomes`), and the comparison (`test_authorizer_differences`).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any
from uuid import UUID

from kclient.protocol import API_NAMES, Message, request_type
from tests.interop.random_acls import GROUPS, LIVE_GROUP, MISSING, OWNERS, TOPICS, TRANSACTIONAL_IDS
from tests.support.broker_harness import batch

# Kinds of resources for settings: topics, brokers, loggers, client metrics and groups.
_CONFIG_KINDS = {2: (*TOPICS, *MISSING), 4: ("1",), 8: ("1",), 16: ("metrics",), 32: GROUPS}


def random_request(rng: random.Random, api: str, version: int, ids: dict[str, UUID], log_dir: str) -> Message:
    """Return a request of an API.

    Parameters:
        ids: the broker's ids of its topics.
        log_dir: the broker's data directory.
    """
    return _MAKERS[api](_Choice(rng, version, ids, log_dir))


class _Choice:
    """Random parts of requests. Both brokers get the same choices, with their own ids and directories."""

    def __init__(self, rng: random.Random, version: int, ids: dict[str, UUID], log_dir: str) -> None:
        self.rng = rng
        self.version = version
        self.ids = ids
        self.log_dir = log_dir
        self.group = rng.choice(GROUPS)
        self.transactional_id = rng.choice(TRANSACTIONAL_IDS)

    def some(self, names: tuple[str, ...]) -> list[str]:
        return self.rng.sample(names, self.rng.randint(1, len(names)))

    def topics(self, names: tuple[str, ...] = (*TOPICS, *MISSING)) -> list[str]:
        return self.some(names)

    def topic_id(self, name: str) -> UUID:
        # A missing topic has an id that nobody knows; Kafka takes zero for none.
        return self.ids.get(name, UUID(int=len(name)))

    def flag(self) -> bool:
        return self.rng.random() < 0.5


def _new(api: str, **fields: Any) -> Message:
    kind = next(request_type(key) for key, name in API_NAMES.items() if name == api)
    return kind(**fields)


def _nested(request: Message | type[Message], struct: str, **fields: Any) -> Any:
    kind = request if isinstance(request, type) else type(request)
    return getattr(kind, struct)(**fields)


def _of(api: str, struct: str, **fields: Any) -> Any:
    return getattr(type(_new(api)), struct)(**fields)


def _produce(choice: _Choice) -> Message:
    transactional = choice.flag()
    header = {"producer_id": 4000, "producer_epoch": 0, "base_sequence": 0} if transactional else {}
    records = batch(b"v", is_transactional=transactional, **header) if transactional else batch(b"v")
    return _new(
        "Produce",
        acks=0 if choice.rng.random() < 0.2 else 1,
        timeout_ms=1000,
        transactional_id=choice.transactional_id if transactional else None,
        topic_data=[
            _of(
                "Produce",
                "TopicProduceData",
                name=name,
                topic_id=choice.topic_id(name),
                partition_data=[_of("Produce", "PartitionProduceData", index=0, records=records)],
            )
            for name in choice.topics()
        ],
    )


def _fetch(choice: _Choice) -> Message:
    follower = choice.rng.random() < 0.2
    fields: dict[str, Any] = {}
    if follower and choice.version < 15:
        fields["replica_id"] = 1
    return _new(
        "Fetch",
        max_bytes=1000,
        topics=[
            _of(
                "Fetch",
                "FetchTopic",
                topic=name,
                topic_id=choice.topic_id(name),
                partitions=[_of("Fetch", "FetchPartition", partition=0, fetch_offset=0, partition_max_bytes=100)],
            )
            # Nobody follows the topics that exist.
            for name in choice.topics(MISSING if fields else (*TOPICS, *MISSING))
        ],
        **fields,
    )


def _metadata(choice: _Choice) -> Message:
    version = choice.version
    fields: dict[str, Any] = {}
    if version >= 4:
        # Otherwise an allowed request would create the topics that are to stay missing.
        fields["allow_auto_topic_creation"] = False
    if version >= 8:
        fields["include_topic_authorized_operations"] = True
    if 8 <= version <= 10:
        fields["include_cluster_authorized_operations"] = choice.flag()
    names = choice.topics(TOPICS if version < 4 else (*TOPICS, *MISSING))
    by_id = version >= 12 and choice.flag()
    everything = choice.rng.random() < 0.3
    topics = [
        _of("Metadata", "MetadataRequestTopic", name=None, topic_id=choice.topic_id(name))
        if by_id
        else _of("Metadata", "MetadataRequestTopic", name=name)
        for name in names
    ]
    if everything:
        topics = [] if version == 0 else None  # type: ignore[assignment]
    return _new("Metadata", topics=topics, **fields)


def _offset_fetch(choice: _Choice) -> Message:
    names = choice.topics()
    everything = choice.version >= 2 and choice.flag()
    if choice.version < 8:
        topics = [_of("OffsetFetch", "OffsetFetchRequestTopic", name=name, partition_indexes=[0]) for name in names]
        return _new("OffsetFetch", group_id=choice.group, topics=None if everything else topics)
    topics = [
        _of(
            "OffsetFetch",
            "OffsetFetchRequestTopics",
            name=name,
            topic_id=choice.topic_id(name),
            partition_indexes=[0],
        )
        for name in names
    ]
    groups = [
        _of("OffsetFetch", "OffsetFetchRequestGroup", group_id=group, topics=None if everything else topics)
        for group in GROUPS
    ]
    return _new("OffsetFetch", groups=groups)


def _partitions_to_txn(choice: _Choice) -> Message:
    topics = [
        _of("AddPartitionsToTxn", "AddPartitionsToTxnTopic", name=name, partitions=[0]) for name in choice.topics()
    ]
    if choice.version < 4:
        return _new(
            "AddPartitionsToTxn",
            v3_and_below_transactional_id=choice.transactional_id,
            v3_and_below_producer_id=9999,
            v3_and_below_topics=topics,
        )
    transaction = _of(
        "AddPartitionsToTxn",
        "AddPartitionsToTxnTransaction",
        transactional_id=choice.transactional_id,
        producer_id=9999,
        topics=topics,
    )
    return _new("AddPartitionsToTxn", transactions=[transaction])


def _configs(api: str, struct: str, config: Callable[[int], Any]) -> Callable[[_Choice], Message]:
    def make(choice: _Choice) -> Message:
        kinds = [kind for kind in _CONFIG_KINDS if not (kind == 8 and api == "AlterConfigs")]
        resources = [
            _of(api, struct, resource_type=kind, resource_name=choice.rng.choice(_CONFIG_KINDS[kind]), **config(kind))
            for kind in choice.rng.sample(kinds, choice.rng.randint(1, len(kinds)))
        ]
        fields = {} if api == "DescribeConfigs" else {"validate_only": True}
        return _new(api, resources=resources, **fields)

    return make


_SETTINGS = {
    2: ("retention.ms", "1000"),
    4: ("log.cleaner.threads", "1"),
    8: ("root", "INFO"),
    16: ("interval.ms", "1000"),
    32: ("consumer.session.timeout.ms", "45000"),
}


def _edit(api: str) -> Callable[[int], Any]:
    return lambda kind: {"configs": [_of(api, "AlterableConfig", name=_SETTINGS[kind][0], value=_SETTINGS[kind][1])]}


def _delete_topics(choice: _Choice) -> Message:
    if choice.version < 6:
        return _new("DeleteTopics", topic_names=list(MISSING), timeout_ms=60_000)
    states = [_of("DeleteTopics", "DeleteTopicState", name=name) for name in MISSING]
    states.append(_of("DeleteTopics", "DeleteTopicState", name=None, topic_id=UUID(int=99)))
    return _new("DeleteTopics", topics=states, timeout_ms=60_000)


def _members(choice: _Choice) -> dict[str, Any]:
    if choice.version < 3:
        return {"member_id": "nobody"}
    return {"members": [_of("LeaveGroup", "MemberIdentity", member_id="nobody")]}


def _key(choice: _Choice) -> Message:
    kind = choice.rng.choice([0, 1]) if choice.version >= 1 else 0
    keys = list(TRANSACTIONAL_IDS if kind else GROUPS)
    fields: dict[str, Any] = {"coordinator_keys": keys} if choice.version >= 4 else {"key": choice.rng.choice(keys)}
    return _new("FindCoordinator", **({"key_type": kind} if choice.version >= 1 else {}), **fields)


def _each(api: str, field: str, struct: str, make: Callable[[_Choice, str], dict[str, Any]]) -> Any:
    """Return a maker of requests with a struct for each of some topics."""

    def made(choice: _Choice) -> Message:
        return _new(api, **{field: [_of(api, struct, **make(choice, name)) for name in choice.topics()]})

    return made


def _commit(choice: _Choice) -> Message:
    topics = [
        _of(
            "OffsetCommit",
            "OffsetCommitRequestTopic",
            name=name,
            topic_id=choice.topic_id(name),
            partitions=[_of("OffsetCommit", "OffsetCommitRequestPartition", committed_offset=1)],
        )
        for name in choice.topics()
    ]
    return _new("OffsetCommit", group_id=choice.group, topics=topics)


def _commit_in_transaction(choice: _Choice) -> Message:
    topics = [
        _of(
            "TxnOffsetCommit",
            "TxnOffsetCommitRequestTopic",
            name=name,
            partitions=[_of("TxnOffsetCommit", "TxnOffsetCommitRequestPartition", committed_offset=1)],
        )
        for name in choice.topics()
    ]
    return _new(
        "TxnOffsetCommit",
        transactional_id=choice.transactional_id,
        group_id=choice.group,
        producer_id=9999,
        topics=topics,
    )


def _heartbeat(choice: _Choice) -> Message:
    return _new(
        "ConsumerGroupHeartbeat",
        group_id=choice.group,
        member_id="nobody",
        member_epoch=5,
        subscribed_topic_names=choice.topics() if choice.flag() else None,
    )


def _markers(choice: _Choice) -> Message:
    topics = [_of("WriteTxnMarkers", "WritableTxnMarkerTopic", name=name, partition_indexes=[0]) for name in MISSING]
    return _new("WriteTxnMarkers", markers=[_of("WriteTxnMarkers", "WritableTxnMarker", producer_id=5, topics=topics)])


def _create_token(choice: _Choice) -> Message:
    fields: dict[str, Any] = {}
    if choice.version >= 3 and choice.rng.random() < 0.8:
        kind, name = choice.rng.choice(OWNERS).split(":")
        fields = {"owner_principal_type": kind, "owner_principal_name": name}
    # An allowed request fails, because a renewer is not a user.
    renewer = _of("CreateDelegationToken", "CreatableRenewers", principal_type="Group", principal_name="g")
    return _new("CreateDelegationToken", renewers=[renewer], **fields)


def _describe_tokens(choice: _Choice) -> Message:
    owners = [
        _of("DescribeDelegationToken", "DescribeDelegationTokenOwner", principal_type=kind, principal_name=name)
        for kind, name in (owner.split(":") for owner in choice.some(OWNERS))
    ]
    return _new("DescribeDelegationToken", owners=owners if choice.flag() else None)


_ANY_ACL = {"resource_type_filter": 2, "pattern_type_filter": 3, "operation": 3, "permission_type": 3}
# The only name of a cluster is another one.
_INVALID_ACL = {
    "resource_type": 4,
    "resource_name": "no",
    "principal": "User:x",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
_NO_ACL = {**_ANY_ACL, "resource_name_filter": "nothing", "principal_filter": None, "host_filter": None}

_MAKERS: dict[str, Callable[[_Choice], Message]] = {
    "Produce": _produce,
    "Fetch": _fetch,
    "ListOffsets": _each(
        "ListOffsets",
        "topics",
        "ListOffsetsTopic",
        lambda choice, name: {
            "name": name,
            "partitions": [_of("ListOffsets", "ListOffsetsPartition", timestamp=-2)],
        },
    ),
    "Metadata": _metadata,
    "OffsetCommit": _commit,
    "OffsetFetch": _offset_fetch,
    "FindCoordinator": _key,
    "JoinGroup": lambda choice: _new("JoinGroup", group_id=choice.group, protocol_type="consumer"),
    "Heartbeat": lambda choice: _new("Heartbeat", group_id=choice.group, member_id="nobody"),
    "LeaveGroup": lambda choice: _new("LeaveGroup", group_id=choice.group, **_members(choice)),
    "SyncGroup": lambda choice: _new(
        "SyncGroup", group_id=choice.group, member_id="nobody", protocol_type="consumer", protocol_name="range"
    ),
    "DescribeGroups": lambda choice: _new(
        "DescribeGroups", groups=list(GROUPS), include_authorized_operations=choice.version >= 3
    ),
    "ListGroups": lambda choice: _new("ListGroups"),
    "CreateTopics": lambda choice: _new(
        "CreateTopics",
        validate_only=True,
        topics=[
            _of("CreateTopics", "CreatableTopic", name=name, num_partitions=1, replication_factor=1)
            for name in choice.topics()
        ],
    ),
    "DeleteTopics": _delete_topics,
    "DeleteRecords": _each(
        "DeleteRecords",
        "topics",
        "DeleteRecordsTopic",
        lambda choice, name: {"name": name, "partitions": [_of("DeleteRecords", "DeleteRecordsPartition")]},
    ),
    "InitProducerId": lambda choice: _new(
        "InitProducerId",
        transactional_id=choice.transactional_id if choice.flag() else None,
        transaction_timeout_ms=60_000,
    ),
    "OffsetForLeaderEpoch": _each(
        "OffsetForLeaderEpoch",
        "topics",
        "OffsetForLeaderTopic",
        lambda choice, name: {"topic": name, "partitions": [_of("OffsetForLeaderEpoch", "OffsetForLeaderPartition")]},
    ),
    "AddPartitionsToTxn": _partitions_to_txn,
    "AddOffsetsToTxn": lambda choice: _new(
        "AddOffsetsToTxn", transactional_id=choice.transactional_id, producer_id=9999, group_id=choice.group
    ),
    "EndTxn": lambda choice: _new("EndTxn", transactional_id=choice.transactional_id, producer_id=9999),
    "TxnOffsetCommit": _commit_in_transaction,
    "WriteTxnMarkers": _markers,
    "CreateDelegationToken": _create_token,
    "RenewDelegationToken": lambda choice: _new("RenewDelegationToken", hmac=b"unknown"),
    "ExpireDelegationToken": lambda choice: _new("ExpireDelegationToken", hmac=b"unknown"),
    "DescribeDelegationToken": _describe_tokens,
    "DescribeAcls": lambda choice: _new("DescribeAcls", **_NO_ACL),
    "CreateAcls": lambda choice: _new("CreateAcls", creations=[_of("CreateAcls", "AclCreation", **_INVALID_ACL)]),
    "DeleteAcls": lambda choice: _new("DeleteAcls", filters=[_of("DeleteAcls", "DeleteAclsFilter", **_NO_ACL)]),
    "DescribeConfigs": _configs(
        "DescribeConfigs", "DescribeConfigsResource", lambda kind: {"configuration_keys": [_SETTINGS[kind][0]]}
    ),
    "AlterConfigs": _configs("AlterConfigs", "AlterConfigsResource", _edit("AlterConfigs")),
    "IncrementalAlterConfigs": _configs(
        "IncrementalAlterConfigs", "AlterConfigsResource", _edit("IncrementalAlterConfigs")
    ),
    "AlterReplicaLogDirs": lambda choice: _new(
        "AlterReplicaLogDirs",
        dirs=[
            _of(
                "AlterReplicaLogDirs",
                "AlterReplicaLogDir",
                path=choice.log_dir,
                topics=[_of("AlterReplicaLogDirs", "AlterReplicaLogDirTopic", name=name, partitions=[0])],
            )
            for name in TOPICS[:1]
        ],
    ),
    "DescribeLogDirs": lambda choice: _new("DescribeLogDirs", topics=[]),
    "CreatePartitions": lambda choice: _new(
        "CreatePartitions",
        validate_only=True,
        timeout_ms=60_000,
        topics=[
            _of("CreatePartitions", "CreatePartitionsTopic", name=name, count=2, assignments=None)
            for name in choice.topics()
        ],
    ),
    "DeleteGroups": lambda choice: _new("DeleteGroups", groups_names=["app.gone", "web.gone"]),
    "ElectLeaders": lambda choice: _new(
        "ElectLeaders", topic_partitions=[_of("ElectLeaders", "TopicPartitions", topic=TOPICS[0], partitions=[0])]
    ),
    "AlterPartitionReassignments": lambda choice: _new(
        "AlterPartitionReassignments",
        topics=[
            _of(
                "AlterPartitionReassignments",
                "ReassignableTopic",
                name=TOPICS[0],
                partitions=[_of("AlterPartitionReassignments", "ReassignablePartition", replicas=None)],
            )
        ],
    ),
    "ListPartitionReassignments": lambda choice: _new("ListPartitionReassignments"),
    "OffsetDelete": lambda choice: _new(
        "OffsetDelete",
        group_id=choice.rng.choice(("app.gone", choice.group)),
        topics=[
            _of(
                "OffsetDelete",
                "OffsetDeleteRequestTopic",
                name=name,
                partitions=[_of("OffsetDelete", "OffsetDeleteRequestPartition")],
            )
            for name in choice.topics()
        ],
    ),
    "DescribeClientQuotas": lambda choice: _new(
        "DescribeClientQuotas",
        components=[_of("DescribeClientQuotas", "ComponentData", entity_type="user", match="nobody")],
    ),
    "AlterClientQuotas": lambda choice: _new(
        "AlterClientQuotas",
        entries=[
            _of(
                "AlterClientQuotas",
                "EntryData",
                entity=[_of("AlterClientQuotas", "EntityData", entity_type="user", entity_name=name)],
                ops=[_of("AlterClientQuotas", "OpData", key="producer_byte_rate", value=1.5, remove=name == "nobody")],
            )
            for name in ("nobody", "fractional")
        ],
    ),
    "DescribeUserScramCredentials": lambda choice: _new(
        "DescribeUserScramCredentials", users=[_of("DescribeUserScramCredentials", "UserName", name="nobody")]
    ),
    "AlterUserScramCredentials": lambda choice: _new(
        "AlterUserScramCredentials",
        deletions=[_of("AlterUserScramCredentials", "ScramCredentialDeletion", name="nobody", mechanism=1)],
    ),
    "DescribeQuorum": lambda choice: _new(
        "DescribeQuorum",
        topics=[
            _of(
                "DescribeQuorum",
                "TopicData",
                topic_name="__cluster_metadata",
                partitions=[_of("DescribeQuorum", "PartitionData")],
            )
        ],
    ),
    "UpdateFeatures": lambda choice: _new("UpdateFeatures", **({"validate_only": True} if choice.version else {})),
    # No broker has this id, so an authorized request fails, too.
    "UnregisterBroker": lambda choice: _new("UnregisterBroker", broker_id=4242),
    "DescribeCluster": lambda choice: _new("DescribeCluster", include_cluster_authorized_operations=True),
    "DescribeProducers": _each(
        "DescribeProducers", "topics", "TopicRequest", lambda choice, name: {"name": name, "partition_indexes": [0]}
    ),
    "DescribeTransactions": lambda choice: _new("DescribeTransactions", transactional_ids=list(TRANSACTIONAL_IDS)),
    "ListTransactions": lambda choice: _new("ListTransactions"),
    "ConsumerGroupHeartbeat": _heartbeat,
    "ConsumerGroupDescribe": lambda choice: _new(
        "ConsumerGroupDescribe", group_ids=[*GROUPS, LIVE_GROUP], include_authorized_operations=True
    ),
    "ListConfigResources": lambda choice: _new("ListConfigResources"),
    "DescribeTopicPartitions": lambda choice: _new(
        "DescribeTopicPartitions",
        topics=[_of("DescribeTopicPartitions", "TopicRequest", name=name) for name in choice.topics()]
        if choice.flag()
        else [],
    ),
}
