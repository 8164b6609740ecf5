"""The administration of a cluster: topics, settings, offsets, groups, transactions; blocking and async."""

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
from kclient.admin.topics import CreatedTopic, NewPartitions, NewTopic, TopicDescription, TopicListing
from kclient.admin.transactions import (
    FencedProducer,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)

__all__ = [
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
    "ProducerState",
    "ResourceType",
    "TopicDescription",
    "TopicListing",
    "TransactionDescription",
    "TransactionListing",
    "TransactionState",
]
