"""The options of consumers, and which of them contradict each other."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Self

from kclient._bound_serializers import check_signatures
from kclient.config.client import CLOSE_TIMEOUT, ClientConfig, check_interceptors
from kclient.config.options import INT_MAX, LONG_MAX, Option, milliseconds, size
from kclient.errors import ConfigError
from kclient.serialization import Deserializer

ISOLATION_LEVELS = {"read_uncommitted": 0, "read_committed": 1}
"""Isolation levels by name, with their number in the protocol."""

StallCallback = Callable[[Mapping[Any, Any]], Any]
"""A function that takes a mapping of TopicPartition to PartitionHealth."""

_OF_THE_OTHER = {
    "classic": ("group_remote_assignor",),
    "consumer": ("session_timeout_ms", "heartbeat_interval_ms", "partition_assignment_strategy"),
}
"""By group protocol, the options that only the other protocol has."""


def _is_instance_id(name: str) -> bool:
    return re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", name) is not None and name not in (".", "..")


class ConsumerConfig(ClientConfig, frozen=True, kw_only=True):
    """Options of Consumer and AsyncConsumer."""

    auto_offset_reset: Annotated[
        str,
        Option(
            'Where to start without a committed offset: "earliest", "latest", "none" (an error), or '
            '"by_duration:PT1H" (that long ago, ISO 8601; KIP-1106).'
        ),
    ] = "latest"
    fetch_min_bytes: Annotated[int, size("The broker responds to a fetch once it has this many bytes.", 0)] = 1
    fetch_max_wait_ms: Annotated[int, milliseconds("How long the broker waits for fetch_min_bytes.", 0, INT_MAX)] = 500
    fetch_max_bytes: Annotated[int, size("The maximum size of a fetch; a larger batch is still returned.", 1)] = (
        52_428_800
    )
    max_partition_fetch_bytes: Annotated[int, size("The maximum that one fetch returns of one partition.", 1)] = (
        1_048_576
    )
    prefetch_max_bytes: Annotated[
        int, size("Fetching pauses while this many bytes are fetched and not read yet.", 1, LONG_MAX)
    ] = 67_108_864
    max_poll_records: Annotated[
        int, Option("The maximum number of records that poll() returns.", minimum=1, maximum=INT_MAX)
    ] = 500
    check_crcs: Annotated[bool, Option("Verify the checksum of each batch.")] = True
    isolation_level: Annotated[
        str, Option("Whether to read records of open and aborted transactions.", choices=tuple(ISOLATION_LEVELS))
    ] = "read_uncommitted"
    client_rack: Annotated[str, Option("The location of this client, to read from a nearby replica (KIP-392).")] = ""
    default_api_timeout_ms: Annotated[int, milliseconds("The timeout of calls without a timeout of their own.")] = (
        60_000
    )
    close_timeout_ms: Annotated[int, milliseconds(CLOSE_TIMEOUT)] = 10_000
    key_deserializer: Annotated[
        Deserializer | None, Option("Converts the bytes of a key; None returns them unchanged.")
    ] = None
    value_deserializer: Annotated[
        Deserializer | None, Option("Converts the bytes of a value; None returns them unchanged.")
    ] = None
    interceptors: Annotated[
        Sequence[Any], Option("Objects with on_consume, on_commit or both.", kafka="interceptor.classes")
    ] = ()
    allow_auto_create_topics: Annotated[
        bool, Option("Let the broker create a subscribed topic that does not exist.")
    ] = True
    exclude_internal_topics: Annotated[bool, Option("A subscription by pattern does not match internal topics.")] = True
    group_id: Annotated[
        str | None, Option("The consumer group; None for a consumer without a group, which reads all partitions.")
    ] = None
    group_instance_id: Annotated[
        str | None,
        Option(
            "Makes the consumer a static member, which keeps its partitions if it restarts within session_timeout_ms."
        ),
    ] = None
    group_protocol: Annotated[
        str,
        Option(
            'Who assigns the partitions: a member ("classic") or the coordinator ("consumer", KIP-848).',
            choices=("classic", "consumer"),
        ),
    ] = "classic"
    session_timeout_ms: Annotated[
        int, milliseconds("The coordinator removes a member that sends no heartbeat for this long.", 1, INT_MAX)
    ] = 45_000
    heartbeat_interval_ms: Annotated[int, milliseconds("The time between two heartbeats.", 1, INT_MAX)] = 3_000
    max_poll_interval_ms: Annotated[
        int,
        milliseconds(
            "A member leaves the group if the application does not ask for records for this long.", 1, INT_MAX
        ),
    ] = 300_000
    partition_assignment_strategy: Annotated[
        str | Sequence[Any],
        Option(
            'How the partitions are assigned: names ("range", "roundrobin", "sticky", "cooperative-sticky") or '
            "objects (see kclient.assignors), in order of preference. The group uses one that all members support."
        ),
    ] = ("range", "cooperative-sticky")
    group_remote_assignor: Annotated[
        str | None,
        Option(
            'With group_protocol="consumer": the assignor of the coordinator, "uniform" or "range"; None for its '
            "default."
        ),
    ] = None
    enable_auto_commit: Annotated[bool, Option("Commit the offsets of what earlier polls returned automatically.")] = (
        True
    )
    auto_commit_interval_ms: Annotated[int, milliseconds("The time between two automatic commits.", 0, INT_MAX)] = 5_000
    enable_auto_offset_store: Annotated[
        bool,
        Option("Whether the next poll marks records as processed; if False, only store_offsets() does."),
    ] = True
    stall_timeout_ms: Annotated[
        int,
        milliseconds("A partition with records left that makes no progress for this long has stalled; 0 for never."),
    ] = 60_000
    on_stall: Annotated[
        StallCallback | None,
        Option(
            "Called once for each stall, with the health of the stalled partitions by partition; without partitions if "
            "the consumer cannot join its group."
        ),
    ] = None

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Build a config from Python names; see `ClientConfig.from_options`.

        Options that do not apply to the chosen group protocol, and automatic commits without a group, are refused.
        """
        config = super().from_options(options)
        refused = [name for name in _OF_THE_OTHER[config.group_protocol] if options.get(name) is not None]
        if refused:
            raise ConfigError(f'{", ".join(refused)} cannot be set with group_protocol="{config.group_protocol}"')
        if options.get("enable_auto_commit") and config.group_id is None:
            raise ConfigError("enable_auto_commit=True needs a group_id: offsets are committed for a group")
        if not config.enable_auto_offset_store and config.group_id is None:
            raise ConfigError("enable_auto_offset_store=False needs a group_id: offsets are committed for a group")
        return config

    def __post_init__(self) -> None:
        super().__post_init__()
        check_signatures(key_deserializer=self.key_deserializer, value_deserializer=self.value_deserializer)
        check_interceptors(self.interceptors, "on_consume", "on_commit")
        if self.group_id == "":
            raise ConfigError("group_id must not be empty; None is for a consumer without a group")
        if self.group_instance_id is not None and (
            self.group_id is None or not _is_instance_id(self.group_instance_id)
        ):
            raise ConfigError(
                "group_instance_id must be a valid name, as for topics (letters, digits, '.', '_', '-'; at most 249), "
                f"and needs a group_id, not {self.group_instance_id!r} in group {self.group_id!r}"
            )
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                f"heartbeat_interval_ms ({self.heartbeat_interval_ms}) must be less than session_timeout_ms "
                f"({self.session_timeout_ms}), about a third of it"
            )

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether the consumer is in a group with the consumer protocol (KIP-848)."""
        return self.group_id is not None and self.group_protocol == "consumer"

    @property
    def reads_committed(self) -> bool:
        """Whether the consumer skips the records of aborted and open transactions."""
        return self.isolation_level == "read_committed"
