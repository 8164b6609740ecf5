"""The typed settings of a log.

`LogConfig` is built from the strings of a topic's configuration; callers of `with_topic_configs` decide whether the
topic's, the broker's or the default value applies. Names, types, defaults and ranges are those of
`refbroker.settings.topic_table`. Ranges are checked where settings are changed, so that tests can use segments smaller
than Kafka permits. Not included: settings that other parts of the broker use, such as replication quotas.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from refbroker.settings.definitions import topic_settings

INT64_MAX = 2**63 - 1


def _setting(name: str) -> Any:
    setting = topic_settings()[name]
    assert setting.default is not None
    return field(default=setting.parse(setting.default), metadata={"setting": setting})


@dataclass(frozen=True, kw_only=True)
class LogConfig:
    """The settings of one partition's log.

    Attributes:
        segment_bytes: the size in bytes beyond which a segment does not grow; the log is rolled before.
        segment_ms, segment_jitter_ms: a segment is rolled when its records span this time, reduced by a random
            part of the jitter.
        segment_index_bytes: the size in bytes of a preallocated index; a segment is rolled when its index is full.
        index_interval_bytes: the bytes of records between two index entries.
        max_message_bytes: the largest record batch in bytes, including its header.
        message_timestamp_type: `CreateTime` or `LogAppendTime`.
        message_timestamp_before_max_ms, message_timestamp_after_max_ms: how far a CreateTime may be
            before and after the broker's clock.
        compression_type: `producer`, or the codec that batches with another codec are recompressed with.
        compression_gzip_level, compression_lz4_level, compression_zstd_level: the levels of the codecs.
        preallocate: create segment files with their full size.
        flush_messages: fsync after this many records; `flush_ms`: after this many milliseconds.
        cleanup_policy: `delete` and/or `compact`; a compacted topic refuses records without a key. With neither,
            all records are kept.
        retention_ms, retention_bytes: the age and size beyond which old segments are deleted; -1 for no limit.
        file_delete_delay_ms: how long files remain after their segment or log is deleted.
        min_cleanable_dirty_ratio: the share of a log that must be dirty before the log is compacted.
        min_compaction_lag_ms, max_compaction_lag_ms: how long a record is exempt from compaction, and the time
            after which it is compacted whatever the dirty ratio is.
        delete_retention_ms: how long compaction keeps tombstones and transaction markers that it could remove.
    """

    segment_bytes: int = _setting("segment.bytes")
    segment_ms: int = _setting("segment.ms")
    segment_jitter_ms: int = _setting("segment.jitter.ms")
    segment_index_bytes: int = _setting("segment.index.bytes")
    index_interval_bytes: int = _setting("index.interval.bytes")
    max_message_bytes: int = _setting("max.message.bytes")
    message_timestamp_type: str = _setting("message.timestamp.type")
    message_timestamp_before_max_ms: int = _setting("message.timestamp.before.max.ms")
    message_timestamp_after_max_ms: int = _setting("message.timestamp.after.max.ms")
    compression_type: str = _setting("compression.type")
    compression_gzip_level: int = _setting("compression.gzip.level")
    compression_lz4_level: int = _setting("compression.lz4.level")
    compression_zstd_level: int = _setting("compression.zstd.level")
    preallocate: bool = _setting("preallocate")
    flush_messages: int = _setting("flush.messages")
    flush_ms: int = _setting("flush.ms")
    cleanup_policy: tuple[str, ...] = _setting("cleanup.policy")
    retention_ms: int = _setting("retention.ms")
    retention_bytes: int = _setting("retention.bytes")
    file_delete_delay_ms: int = _setting("file.delete.delay.ms")
    min_cleanable_dirty_ratio: float = _setting("min.cleanable.dirty.ratio")
    min_compaction_lag_ms: int = _setting("min.compaction.lag.ms")
    max_compaction_lag_ms: int = _setting("max.compaction.lag.ms")
    delete_retention_ms: int = _setting("delete.retention.ms")

    @property
    def deletes(self) -> bool:
        """Whether retention deletes old segments by time and size."""
        return "delete" in self.cleanup_policy

    @property
    def compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def log_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def compression_level(self) -> int | None:
        """The level for `compression_type`, None if the codec has no levels."""
        levels = {
            "gzip": self.compression_gzip_level,
            "lz4": self.compression_lz4_level,
            "zstd": self.compression_zstd_level,
        }
        return levels.get(self.compression_type)

    def with_topic_configs(self, configs: Mapping[str, str]) -> LogConfig:
        """Return a copy of this configuration with a topic's own settings.

        Parameters:
            configs: names, such as `segment.bytes`, and values; settings that the log does not use are ignored.

        Raises:
            InvalidConfigurationError: a value is not of the setting's type.
        """
        changes = {
            item.name: item.metadata["setting"].parse(configs[item.metadata["setting"].name])
            for item in dataclasses.fields(self)
            if item.metadata["setting"].name in configs
        }
        return dataclasses.replace(self, **changes) if changes else self
