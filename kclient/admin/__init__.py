"""The administration of a cluster: topics, replicas, settings, offsets, groups, transactions, brokers, security."""

from kclient.admin.acls import AclBinding, AclBindingFilter
from kclient.admin.admin import Admin
from kclient.admin.async_admin import AsyncAdmin
from kclient.admin.cluster import ClusterDescription
from kclient.admin.configs import (
    AlterConfig,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigSynonym,
    ConfigType,
    ResourceType,
)
from kclient.admin.elections import ElectionType
from kclient.admin.features import (
    FeatureMetadata,
    FeatureUpdate,
    FinalizedVersionRange,
    SupportedVersionRange,
    UpgradeType,
)
from kclient.admin.group_lag import PartitionLag
from kclient.admin.groups import GroupDescription, GroupListing, GroupMember, GroupState, GroupType, MemberIdentity
from kclient.admin.log_dirs import LogDirDescription, ReplicaInfo, ReplicaLogDirInfo, TopicPartitionReplica
from kclient.admin.offset_resets import OffsetChange, OffsetReset
from kclient.admin.offsets import OffsetSpec
from kclient.admin.producers import HangingTransaction, ProducerState
from kclient.admin.quorum import QuorumInfo, QuorumReplica, RaftVoterEndpoint
from kclient.admin.quotas import QuotaEntity, QuotaFilter, QuotaMatch
from kclient.admin.reassignments import PartitionReassignment
from kclient.admin.tokens import DelegationToken
from kclient.admin.topic_descriptions import TopicDescription, TopicListing
from kclient.admin.topics import CreatedTopic, NewPartitions, NewTopic
from kclient.admin.transactions import (
    FencedProducer,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from kclient.admin.users import ScramCredentialInfo, ScramDeletion, ScramUpsertion
from kclient.protocol.acls import AclOperation, AclPermissionType, AclResourceType, PatternType

__all__ = [
    "AclBinding",
    "AclBindingFilter",
    "AclOperation",
    "AclPermissionType",
    "AclResourceType",
    "Admin",
    "AlterConfig",
    "AsyncAdmin",
    "ClusterDescription",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "CreatedTopic",
    "DelegationToken",
    "ElectionType",
    "FeatureMetadata",
    "FeatureUpdate",
    "FencedProducer",
    "FinalizedVersionRange",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "GroupState",
    "GroupType",
    "HangingTransaction",
    "LogDirDescription",
    "MemberIdentity",
    "NewPartitions",
    "NewTopic",
    "OffsetChange",
    "OffsetReset",
    "OffsetSpec",
    "PartitionLag",
    "PartitionReassignment",
    "PatternType",
    "ProducerState",
    "QuorumInfo",
    "QuorumReplica",
    "QuotaEntity",
    "QuotaFilter",
    "QuotaMatch",
    "RaftVoterEndpoint",
    "ReplicaInfo",
    "ReplicaLogDirInfo",
    "ResourceType",
    "ScramCredentialInfo",
    "ScramDeletion",
    "ScramUpsertion",
    "SupportedVersionRange",
    "TopicDescription",
    "TopicListing",
    "TopicPartitionReplica",
    "TransactionDescription",
    "TransactionListing",
    "TransactionState",
    "UpgradeType",
]
