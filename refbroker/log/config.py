"""The settings a log acts on, typed, with Kafka's names and defaults, each in this one place.

`LogConfig` is made from the strings that a topic's configuration holds; which of topic, broker or
default applies is decided by who calls `with_topic_configs`. Settings that other
parts of the broker act on (replication quotas, remote storage) are not here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kclient.errors import InvalidConfigurationError

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

COMPRESSION_TYPES = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")


def _integer(lowest: int, highest: int = INT64_MAX) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if not lowest <= value <= highest:
            raise ValueError(f"must be from {lowest} to {highest}")
        return value

    return parse


def _ratio(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError("must be from 0 to 1")
    return value


def _boolean(text: str) -> bool:
    values = {"true": True, "false": False}
    if text.strip().lower() not in values:
        raise ValueError("must be true or false")
    return values[text.strip().lower()]


def _one_of(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return text

    return parse


def _policies(text: str) -> tuple[str, ...]:
    policies = tuple(part.strip() for part in text.split(",") if part.strip())
    for policy in policies:
        if policy not in ("delete", "compact"):
            raise ValueError("must be delete, compact or both")
    return policies


def _setting(name: str, default: Any, parse: Callable[[str], Any]) -> Any:
    return field(default=default, metadata={"name": name, "parse": parse})


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

    segment_bytes: int = _setting("segment.bytes", 2**30, _integer(14, INT32_MAX))
    segment_ms: int = _setting("segment.ms", 7 * 24 * 3600 * 1000, _integer(1))
    segment_jitter_ms: int = _setting("segment.jitter.ms", 0, _integer(0))
    segment_index_bytes: int = _setting("segment.index.bytes", 10 * 2**20, _integer(4, INT32_MAX))
    index_interval_bytes: int = _setting("index.interval.bytes", 4096, _integer(0, INT32_MAX))
    max_message_bytes: int = _setting("max.message.bytes", 2**20 + 12, _integer(0, INT32_MAX))
    message_timestamp_type: str = _setting("message.timestamp.type", "CreateTime", _one_of(*TIMESTAMP_TYPES))
    message_timestamp_before_max_ms: int = _setting("message.timestamp.before.max.ms", INT64_MAX, _integer(0))
    message_timestamp_after_max_ms: int = _setting("message.timestamp.after.max.ms", 3_600_000, _integer(0))
    compression_type: str = _setting("compression.type", "producer", _one_of(*COMPRESSION_TYPES))
    compression_gzip_level: int = _setting("compression.gzip.level", -1, _integer(-1, 9))
    compression_lz4_level: int = _setting("compression.lz4.level", 9, _integer(1, 17))
    compression_zstd_level: int = _setting("compression.zstd.level", 3, _integer(-131072, 22))
    preallocate: bool = _setting("preallocate", False, _boolean)
    flush_messages: int = _setting("flush.messages", INT64_MAX, _integer(1))
    flush_ms: int = _setting("flush.ms", INT64_MAX, _integer(0))
    cleanup_policy: tuple[str, ...] = _setting("cleanup.policy", ("delete",), _policies)
    retention_ms: int = _setting("retention.ms", 7 * 24 * 3600 * 1000, _integer(-1))
    retention_bytes: int = _setting("retention.bytes", -1, _integer(-INT64_MAX))
    file_delete_delay_ms: int = _setting("file.delete.delay.ms", 60_000, _integer(0))
    min_cleanable_dirty_ratio: float = _setting("min.cleanable.dirty.ratio", 0.5, _ratio)
    min_compaction_lag_ms: int = _setting("min.compaction.lag.ms", 0, _integer(0))
    max_compaction_lag_ms: int = _setting("max.compaction.lag.ms", INT64_MAX, _integer(1))
    delete_retention_ms: int = _setting("delete.retention.ms", 24 * 3600 * 1000, _integer(0))

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
            InvalidConfigurationError: a value is not what the setting can have.
        """
        changes: dict[str, Any] = {}
        for item in dataclasses.fields(self):
            name = item.metadata["name"]
            text = configs.get(name)
            if text is None:
                continue
            try:
                changes[item.name] = item.metadata["parse"](text)
            except ValueError as error:
                raise InvalidConfigurationError(f"Invalid value {text} for configuration {name}: {error}") from error
        return dataclasses.replace(self, **changes) if changes else self
