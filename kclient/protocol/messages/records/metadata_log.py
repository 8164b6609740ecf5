"""The records of `__cluster_metadata`, the log that a KRaft cluster's state is replayed from (KIP-631).

The API key is the record's type, which is in the frame around it (`kclient.protocol.log_records`).
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from kclient.protocol.declaration import Message, message
from kclient.protocol.schema import (
    ZERO_UUID,
    Struct,
    array,
    float64,
    int8,
    int16,
    int32,
    int64,
    map_key,
    secret,
    since,
    tagged,
    uint16,
)


@message(api_key=0, versions="0-4", flexible="0+")
class RegisterBrokerRecord(Message):
    """A broker has registered with the controller."""

    broker_id: int32 = 0
    is_migrating_zk_broker: Annotated[bool, since(2)] = False
    incarnation_id: UUID = ZERO_UUID
    broker_epoch: int64 = 0
    end_points: list[BrokerEndpoint] = array()
    features: list[BrokerFeature] = array()
    rack: str | None = ""
    fenced: bool = True
    in_controlled_shutdown: Annotated[bool, since(1)] = False
    log_dirs: Annotated[list[UUID], since(3), tagged(0)] = array()
    cordoned_log_dirs: Annotated[list[UUID] | None, since(4), tagged(1)] = None

    class BrokerEndpoint(Struct):
        name: Annotated[str, map_key] = ""
        host: str = ""
        port: uint16 = 0
        security_protocol: int16 = 0

    class BrokerFeature(Struct):
        name: Annotated[str, map_key] = ""
        min_supported_version: int16 = 0
        max_supported_version: int16 = 0


@message(api_key=1, versions="0", flexible="0+")
class UnregisterBrokerRecord(Message):
    """A broker was removed from the cluster."""

    broker_id: int32 = 0
    broker_epoch: int64 = 0


@message(api_key=2, versions="0", flexible="0+")
class TopicRecord(Message):
    """A topic was created."""

    name: str = ""
    topic_id: UUID = ZERO_UUID


@message(api_key=3, versions="0-2", flexible="0+")
class PartitionRecord(Message):
    """A partition was created; also its whole state in a snapshot."""

    partition_id: int32 = -1
    topic_id: UUID = ZERO_UUID
    replicas: list[int32] = array()
    isr: list[int32] = array()
    removing_replicas: list[int32] = array()
    adding_replicas: list[int32] = array()
    leader: int32 = -1
    leader_recovery_state: Annotated[int8, tagged(0)] = 0
    leader_epoch: int32 = -1
    partition_epoch: int32 = -1
    directories: Annotated[list[UUID], since(1)] = array()
    eligible_leader_replicas: Annotated[list[int32] | None, since(2), tagged(1)] = None
    last_known_elr: Annotated[list[int32] | None, since(2), tagged(2)] = None


@message(api_key=4, versions="0", flexible="0+")
class ConfigRecord(Message):
    """A setting of a resource was changed; a null value removes it."""

    resource_type: int8 = 0
    resource_name: str = ""
    name: str = ""
    value: Annotated[str | None, secret] = ""


@message(api_key=5, versions="0-2", flexible="0+")
class PartitionChangeRecord(Message):
    """Parts of a partition's state changed; what is null, or -2 for the leader, stays as it was."""

    partition_id: int32 = -1
    topic_id: UUID = ZERO_UUID
    isr: Annotated[list[int32] | None, tagged(0)] = None
    leader: Annotated[int32, tagged(1)] = -2
    replicas: Annotated[list[int32] | None, tagged(2)] = None
    removing_replicas: Annotated[list[int32] | None, tagged(3)] = None
    adding_replicas: Annotated[list[int32] | None, tagged(4)] = None
    leader_recovery_state: Annotated[int8, tagged(5)] = -1
    directories: Annotated[list[UUID] | None, since(1), tagged(8)] = None
    eligible_leader_replicas: Annotated[list[int32] | None, since(2), tagged(6)] = None
    last_known_elr: Annotated[list[int32] | None, since(2), tagged(7)] = None


@message(api_key=7, versions="0", flexible="0+")
class FenceBrokerRecord(Message):
    """A broker was fenced."""

    id: int32 = 0
    epoch: int64 = 0


@message(api_key=8, versions="0", flexible="0+")
class UnfenceBrokerRecord(Message):
    """A broker was unfenced."""

    id: int32 = 0
    epoch: int64 = 0


@message(api_key=9, versions="0", flexible="0+")
class RemoveTopicRecord(Message):
    """A topic was deleted."""

    topic_id: UUID = ZERO_UUID


@message(api_key=10, versions="0", flexible="0+")
class DelegationTokenRecord(Message):
    """A delegation token was created or changed."""

    owner: str = ""
    requester: str = ""
    renewers: list[str] = array()
    issue_timestamp: int64 = 0
    max_timestamp: int64 = 0
    expiration_timestamp: int64 = 0
    token_id: str = ""


@message(api_key=11, versions="0", flexible="0+")
class UserScramCredentialRecord(Message):
    """A user's SCRAM credential was set."""

    name: str = ""
    mechanism: int8 = 0
    salt: Annotated[bytes, secret] = b""
    stored_key: Annotated[bytes, secret] = b""
    server_key: Annotated[bytes, secret] = b""
    iterations: int32 = 0


@message(api_key=12, versions="0", flexible="0+")
class FeatureLevelRecord(Message):
    """The finalized level of a feature changed."""

    name: str = ""
    feature_level: int16 = 0


@message(api_key=14, versions="0", flexible="0+")
class ClientQuotaRecord(Message):
    """A quota was set or removed."""

    entity: list[EntityData] = array()
    key: str = ""
    value: float64 = 0.0
    remove: bool = False

    class EntityData(Struct):
        entity_type: str = ""
        entity_name: str | None = ""


@message(api_key=15, versions="0", flexible="0+")
class ProducerIdsRecord(Message):
    """A block of producer ids was given to a broker."""

    broker_id: int32 = 0
    broker_epoch: int64 = -1
    next_producer_id: int64 = 0


@message(api_key=17, versions="0-3", flexible="0+")
class BrokerRegistrationChangeRecord(Message):
    """A broker's registration changed: fenced, or in controlled shutdown."""

    broker_id: int32 = 0
    broker_epoch: int64 = 0
    fenced: Annotated[int8, tagged(0)] = 0
    in_controlled_shutdown: Annotated[int8, since(1), tagged(1)] = 0
    log_dirs: Annotated[list[UUID], since(2), tagged(2)] = array()
    cordoned_log_dirs: Annotated[list[UUID] | None, since(3), tagged(3)] = None


@message(api_key=18, versions="0", flexible="0+")
class AccessControlEntryRecord(Message):
    """An access control entry was created."""

    id: UUID = ZERO_UUID
    resource_type: int8 = 0
    resource_name: str = ""
    pattern_type: int8 = 0
    principal: str = ""
    host: str = ""
    operation: int8 = 0
    permission_type: int8 = 0


@message(api_key=19, versions="0", flexible="0+")
class RemoveAccessControlEntryRecord(Message):
    """An access control entry was deleted."""

    id: UUID = ZERO_UUID


@message(api_key=20, versions="0", flexible="0+")
class NoOpRecord(Message):
    """Nothing; keeps the end of the log moving."""


@message(api_key=21, versions="0", flexible="0+")
class ZkMigrationStateRecord(Message):
    """How far the migration from ZooKeeper is."""

    zk_migration_state: int8 = 0


@message(api_key=22, versions="0", flexible="0+")
class RemoveUserScramCredentialRecord(Message):
    """A user's SCRAM credential was removed."""

    name: str = ""
    mechanism: int8 = 0


@message(api_key=23, versions="0", flexible="0+")
class BeginTransactionRecord(Message):
    """The records that follow count only once the transaction ends (KIP-868)."""

    name: Annotated[str | None, tagged(0)] = None


@message(api_key=24, versions="0", flexible="0+")
class EndTransactionRecord(Message):
    """The transaction of metadata records is complete."""


@message(api_key=25, versions="0", flexible="0+")
class AbortTransactionRecord(Message):
    """The transaction of metadata records does not count."""

    reason: Annotated[str | None, tagged(0)] = None


@message(api_key=26, versions="0", flexible="0+")
class RemoveDelegationTokenRecord(Message):
    """A delegation token was removed."""

    token_id: str = ""


@message(api_key=27, versions="0", flexible="0+")
class RegisterControllerRecord(Message):
    """A controller has registered with the active one."""

    controller_id: int32 = 0
    incarnation_id: UUID = ZERO_UUID
    zk_migration_ready: bool = False
    end_points: list[ControllerEndpoint] = array()
    features: list[ControllerFeature] = array()

    class ControllerEndpoint(Struct):
        name: Annotated[str, map_key] = ""
        host: str = ""
        port: uint16 = 0
        security_protocol: int16 = 0

    class ControllerFeature(Struct):
        name: Annotated[str, map_key] = ""
        min_supported_version: int16 = 0
        max_supported_version: int16 = 0


@message(api_key=28, versions="0", flexible="0+")
class ClearElrRecord(Message):
    """The eligible leader replicas of a topic, or of all, were cleared (KIP-966)."""

    topic_name: str = ""
