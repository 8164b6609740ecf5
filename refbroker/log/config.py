"""The settings that a log acts on, typed.

`LogConfig` is made from the strings of a topic's configuration; which of topic, broker or default applies is decided by
who calls `with_topic_configs`. Names, types, defaults and ranges are those of `refbroker.settings.topic_table`. Ranges
are checked where settings are set, not here: a test may give a log segments that are smaller than Kafka lets a topic
have. Settings that other parts of the broker act on (replication quotas, remote storage) are not here.
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
        segment_bytes: a segment is rolled before it grows beyond this.
        segment_ms, segment_jitter_ms: a segment is rolled when its records span this much time, or
            up to the jitter less.
        segment_index_bytes: the size an index is preallocated with; a segment is rolled when it is full.
        index_interval_bytes: bytes of records between two entries of an index.
        max_message_bytes: the largest record batch, header included.
        message_timestamp_type: `CreateTime` or `LogAppendTime`.
        message_timestamp_before_max_ms, message_timestamp_after_max_ms: how far a CreateTime may lie
            before and after the broker's clock.
        compression_type: `producer`, or what batches are compressed with anew when they are not already.
        compression_gzip_level, compression_lz4_level, compression_zstd_level: for that.
        preallocate: make segment files at their full size at once.
        flush_messages: fsync after this many records; `flush_ms`: after this many milliseconds.
        cleanup_policy: `delete` and/or `compact`; a compacted topic refuses records without key. With neither,
            everything is kept.
        retention_ms, retention_bytes: what is older, or beyond this size, may go; -1 for no limit.
        file_delete_delay_ms: how long a file stays once its segment or log is deleted.
        min_cleanable_dirty_ratio: the part of a log that must be new before it is compacted.
        min_compaction_lag_ms, max_compaction_lag_ms: a record is left alone for the one, and compacted after
            the other whatever the ratio is.
        delete_retention_ms: how long compaction keeps tombstones and transaction markers that it could drop.
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
        """Whether old records go by time and size."""
        return "delete" in self.cleanup_policy

    @property
    def compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def log_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def compression_level(self) -> int | None:
        """The level for `compression_type`, None where the codec has none."""
        levels = {
            "gzip": self.compression_gzip_level,
            "lz4": self.compression_lz4_level,
            "zstd": self.compression_zstd_level,
        }
        return levels.get(self.compression_type)

    def with_topic_configs(self, configs: Mapping[str, str]) -> LogConfig:
        """This configuration with a topic's own settings on top.

        Parameters:
            configs: dotted topic names and values; names that the log does not act on are left out.

        Raises:
            InvalidConfigurationError: a value is not of the setting's type.
        """
        changes = {
            item.name: item.metadata["setting"].parse(configs[item.metadata["setting"].name])
            for item in dataclasses.fields(self)
            if item.metadata["setting"].name in configs
        }
        return dataclasses.replace(self, **changes) if changes else self
