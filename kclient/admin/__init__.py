"""Looking after a cluster: topics, settings, offsets; by area, with a blocking and an async face."""

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
from kclient.admin.offsets import OffsetSpec
from kclient.admin.topics import CreatedTopic, NewPartitions, NewTopic, TopicDescription, TopicListing

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
    "NewPartitions",
    "NewTopic",
    "OffsetSpec",
    "ResourceType",
    "TopicDescription",
    "TopicListing",
]
