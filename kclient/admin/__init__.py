"""The administration of a cluster: topics, settings, offsets, groups, transactions, security; blocking and async."""

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
from kclient.admin.group_lag import PartitionLag
from kclient.admin.groups import GroupDescription, GroupListing, GroupMember, GroupState, GroupType, MemberIdentity
from kclient.admin.offset_resets import OffsetChange, OffsetReset
from kclient.admin.offsets import OffsetSpec
from kclient.admin.producers import HangingTransaction, ProducerState
from kclient.admin.quotas import QuotaEntity, QuotaFilter, QuotaMatch
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
    "FencedProducer",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "GroupState",
    "GroupType",
    "HangingTransaction",
    "MemberIdentity",
    "NewPartitions",
    "NewTopic",
    "OffsetChange",
    "OffsetReset",
    "OffsetSpec",
    "PartitionLag",
    "PatternType",
    "ProducerState",
    "QuotaEntity",
    "QuotaFilter",
    "QuotaMatch",
    "ResourceType",
    "ScramCredentialInfo",
    "ScramDeletion",
    "ScramUpsertion",
    "TopicDescription",
    "TopicListing",
    "TransactionDescription",
    "TransactionListing",
    "TransactionState",
]
