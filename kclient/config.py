"""The options of every client: each is defined here once, with its default, unit and range.

Names are Kafka's in Python's spelling, with Kafka's meaning and, unless DESIGN.md says otherwise, 4.3's default. A
config is a frozen struct built from keyword arguments (`ProducerConfig.from_options`) or from dotted names
(`from_properties`); an option that does not exist or a value out of range raises a ConfigError that says what is
allowed. Elsewhere: the effect of each option, where it is used.
"""

import os
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

import msgspec

from kclient import _compression
from kclient._bound_serializers import takes_context
from kclient._misuse import is_coroutine_function, should_be_instance
from kclient._properties import read_properties
from kclient._unknown_options import unknown_option
from kclient.errors import ConfigError
from kclient.serialization import Deserializer, Serializer

ISOLATION_LEVELS = {"read_uncommitted": 0, "read_committed": 1}
"""Isolation levels by name, with their number in the protocol."""


class Option(msgspec.Struct, frozen=True):
    """Metadata of an option besides its type and default.

    `minimum` and `maximum` are inclusive, and `special` is a number outside of these that is allowed as well;
    `choices` lists the only values allowed; `kafka` is the dotted name when it is not simply the Python name
    with dots.
    """

    doc: str
    unit: str = ""
    minimum: int | None = None
    maximum: int | None = None
    special: int | None = None
    choices: tuple[Any, ...] = ()
    kafka: str = ""


_PROTOCOLS_TO_COME = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""The values of security_protocol that Kafka has and this version does not implement yet."""

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

ConnectivityCallback = Callable[[Any], Any]
"""A function that takes a Connectivity."""
StallCallback = Callable[[Mapping[Any, Any]], Any]
"""A function that takes a mapping of TopicPartition to PartitionHealth."""


def _milliseconds(doc: str, minimum: int = 0, maximum: int = LONG_MAX) -> Option:
    return Option(doc, unit="ms", minimum=minimum, maximum=maximum)


def _size(doc: str, minimum: int = 0, maximum: int = INT_MAX) -> Option:
    return Option(doc, unit="bytes", minimum=minimum, maximum=maximum)


def _level(codec: str, doc: str) -> Option:
    levels = _compression.LEVELS[codec]
    return Option(
        doc,
        minimum=levels.least,
        maximum=levels.greatest,
        special=levels.special,
        kafka=f"compression.{codec}.level",
    )


_CLOSE_TIMEOUT = "How long close() without a timeout, or the end of a `with` block, may take."


class ClientConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Options that producers, consumers and admins have in common."""

    bootstrap_servers: Annotated[
        str | Sequence[str],
        Option(
            'Brokers to connect to first: "host:port,host:port" or a sequence of them. The port is 9092 if it is '
            "missing."
        ),
    ] = "localhost:9092"
    client_id: Annotated[str, Option("The client's name in the logs, quotas and metrics of brokers.")] = "kclient"
    security_protocol: Annotated[
        str, Option('How connections are secured. Only "PLAINTEXT", in any case, is implemented so far.')
    ] = "PLAINTEXT"
    client_dns_lookup: Annotated[
        str,
        Option(
            "How a host name with several addresses is used.",
            choices=("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        ),
    ] = "use_all_dns_ips"
    request_timeout_ms: Annotated[int, _milliseconds("How long to wait for the response to one request.", 1)] = 30_000
    reconnect_backoff_ms: Annotated[int, _milliseconds("The first wait before connecting to a broker again.")] = 50
    reconnect_backoff_max_ms: Annotated[int, _milliseconds("The longest wait before connecting again.")] = 1_000
    retry_backoff_ms: Annotated[int, _milliseconds("The first wait before a failed request is retried.")] = 100
    retry_backoff_max_ms: Annotated[int, _milliseconds("The longest wait before a failed request is retried.")] = 1_000
    socket_connection_setup_timeout_ms: Annotated[
        int, _milliseconds("How long the first attempts to set up a connection may take.", 1)
    ] = 10_000
    socket_connection_setup_timeout_max_ms: Annotated[
        int, _milliseconds("How long setting up a connection may take after several failures in a row.", 1)
    ] = 30_000
    connections_max_idle_ms: Annotated[
        int, _milliseconds("Idle connections are closed after this long; -1 for never.", -1)
    ] = 540_000
    metadata_max_age_ms: Annotated[int, _milliseconds("The longest time between two refreshes of the metadata.", 1)] = (
        300_000
    )
    metadata_recovery_strategy: Annotated[
        str, Option("What to do when no known broker responds (KIP-899).", choices=("rebootstrap", "none"))
    ] = "rebootstrap"
    metadata_recovery_rebootstrap_trigger_ms: Annotated[
        int, _milliseconds("Start again from bootstrap_servers after this long without metadata (KIP-1102).")
    ] = 300_000
    send_buffer_bytes: Annotated[int, _size("SO_SNDBUF of the sockets; -1 for the system's default.", -1)] = -1
    receive_buffer_bytes: Annotated[int, _size("SO_RCVBUF of the sockets; -1 for the system's default.", -1)] = -1
    on_connectivity_change: Annotated[
        ConnectivityCallback | None,
        Option(
            "Called with a Connectivity, once when no broker is reachable, and once when one is again: in an "
            "async client's event loop, in the thread of a producer's delivery callbacks, else in a thread of its own."
        ),
    ] = None

    def __post_init__(self) -> None:
        hints = _hints(type(self))
        servers = self.bootstrap_servers
        if not isinstance(servers, Sequence):
            raise ConfigError(f'bootstrap_servers must be "host:port,host:port" or a sequence of them, not {servers!r}')
        for name in self.__struct_fields__:
            _check(name, hints[name], getattr(self, name))
        if is_coroutine_function(self.on_connectivity_change):
            raise ConfigError(
                "on_connectivity_change must be a plain function: nothing would await a coroutine function"
            )
        protocol = self.security_protocol.upper()
        if protocol in _PROTOCOLS_TO_COME:
            raise ConfigError(
                f'security_protocol="{protocol}" is not implemented yet. Use "PLAINTEXT" and a listener for it.'
            )
        if protocol != "PLAINTEXT":
            raise ConfigError(f'security_protocol must be "PLAINTEXT", not {self.security_protocol!r}')

    @property
    def label(self) -> str:
        """The client's name in log lines and warnings, such as "producer 'billing'"."""
        return f"{type(self).__name__.removesuffix('Config').lower()} {self.client_id!r}"

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Build a config from Python names.

        Raises:
            ConfigError: an option does not exist (the message names the nearest one) or its value is invalid.
        """
        unknown = [name for name in options if name not in cls.__struct_fields__]
        if unknown:
            raise ConfigError(_unknown(unknown[0], cls, {name: name for name in cls.__struct_fields__}))
        return cls(**options)

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any] | str | os.PathLike[str], **options: Any) -> Self:
        """Build a config from Kafka's dotted names: a mapping, or the path of a .properties file.

        Values may be strings, as in a file; keyword arguments use Python names and take precedence.
        """
        if not isinstance(properties, Mapping):
            properties = read_properties(Path(properties))
        hints = _hints(cls)
        names = {dotted_name(cls, name): name for name in cls.__struct_fields__}
        converted: dict[str, Any] = {}
        for dotted, value in properties.items():
            if dotted not in names:
                raise ConfigError(_unknown(dotted, cls, {name: dotted for dotted, name in names.items()}))
            name = names[dotted]
            converted[name] = _parse(dotted, hints[name], value) if isinstance(value, str) else value
        return cls.from_options({**converted, **options})


class ProducerConfig(ClientConfig, frozen=True, kw_only=True):
    """Options of Producer and AsyncProducer."""

    acks: Annotated[
        int | str,
        Option(
            'Which replicas must have a record before it counts as delivered: 0 (none), 1 (the leader) or "all".',
            choices=(0, 1, -1, "all"),
        ),
    ] = "all"
    enable_idempotence: Annotated[
        bool | None,
        Option("Prevent duplicates and reordering by retries. By default on, unless acks is 0 or 1."),
    ] = None
    linger_ms: Annotated[int, _milliseconds("How long a batch waits for more records.")] = 5
    batch_size: Annotated[int, _size("A batch is sent when it has this many bytes.")] = 1_000_000
    buffer_memory: Annotated[
        int, _size("Bytes of records that may wait to be sent; send() blocks while it is full.", 1, LONG_MAX)
    ] = 33_554_432
    max_block_ms: Annotated[int, _milliseconds("How long send() may wait for buffer memory or for metadata.")] = 60_000
    max_request_size: Annotated[int, _size("The largest size of a request, and therefore of a record.", 1)] = 1_048_576
    max_in_flight_requests_per_connection: Annotated[
        int, Option("The number of requests to one broker that may be in flight.", minimum=1, maximum=INT_MAX)
    ] = 5
    delivery_timeout_ms: Annotated[int, _milliseconds("How long delivery may take, retries included.", 1)] = 120_000
    retries: Annotated[int, Option("How often a failed batch is retried at most.", minimum=0, maximum=INT_MAX)] = (
        INT_MAX
    )
    compression_type: Annotated[str, Option("The compression of batches.", choices=_compression.NAMES)] = "none"
    compression_gzip_level: Annotated[int, _level("gzip", "gzip's level; -1 is zlib's own default.")] = (
        _compression.LEVELS["gzip"].default
    )
    compression_lz4_level: Annotated[int, _level("lz4", "lz4's level.")] = _compression.LEVELS["lz4"].default
    compression_zstd_level: Annotated[int, _level("zstd", "zstd's level.")] = _compression.LEVELS["zstd"].default
    partitioner: Annotated[
        Any,
        Option(
            'Chooses the partition: "default" (murmur2 of the key, else sticky), "round_robin", "random", '
            '"consistent_random", or an object of your own (see kclient.producer.partitioners).'
        ),
    ] = "default"
    partitioner_ignore_keys: Annotated[bool, Option("Ignore keys when choosing a partition.")] = False
    partitioner_adaptive_partitioning_enable: Annotated[
        bool, Option("Send more to partitions whose broker answers faster (KIP-794).")
    ] = True
    partitioner_availability_timeout_ms: Annotated[
        int, _milliseconds("Avoid partitions whose broker has accepted nothing for this long; 0 for never.")
    ] = 0
    key_serializer: Annotated[Serializer | None, Option("Converts a key to bytes; None for keys that are bytes.")] = (
        None
    )
    value_serializer: Annotated[
        Serializer | None, Option("Converts a value to bytes; None for values that are bytes.")
    ] = None
    interceptors: Annotated[
        Sequence[Any], Option("Objects with on_send, on_acknowledgement or both.", kafka="interceptor.classes")
    ] = ()
    transactional_id: Annotated[
        str | None,
        Option("Enables transactions; a new producer with the same id fences the previous one."),
    ] = None
    transaction_timeout_ms: Annotated[
        int, _milliseconds("The coordinator aborts a transaction that stays open for longer.", 1, INT_MAX)
    ] = 60_000
    close_timeout_ms: Annotated[
        int | None, _milliseconds(f"{_CLOSE_TIMEOUT} None: until each record is delivered or failed.")
    ] = None
    metadata_max_idle_ms: Annotated[
        int, _milliseconds("Metadata of a topic is dropped after this long without a record for it.", 5_000)
    ] = 300_000

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_signatures(key_serializer=self.key_serializer, value_serializer=self.value_serializer)
        _check_interceptors(self.interceptors, "on_send", "on_acknowledgement")
        self._check_transactions()
        if self.enable_idempotence:
            if self.acks not in (-1, "all"):
                raise ConfigError(f'enable_idempotence=True needs acks="all", not {self.acks!r}')
            if self.retries == 0:
                raise ConfigError("enable_idempotence=True needs retries above 0")
            if self.max_in_flight_requests_per_connection > 5:
                raise ConfigError("enable_idempotence=True allows at most 5 max_in_flight_requests_per_connection")
        elif self.enable_idempotence is None and self.acks in (-1, "all"):
            if self.retries == 0:
                raise ConfigError("retries=0 requires enable_idempotence=False")
            if self.max_in_flight_requests_per_connection > 5:
                raise ConfigError(
                    "an idempotent producer allows at most 5 max_in_flight_requests_per_connection; "
                    "for more, set enable_idempotence=False"
                )
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            raise ConfigError(
                f"delivery_timeout_ms ({self.delivery_timeout_ms}) must be at least linger_ms + request_timeout_ms "
                f"({self.linger_ms} + {self.request_timeout_ms})"
            )

    def _check_transactions(self) -> None:
        if self.transactional_id is None:
            return
        if not self.transactional_id:
            raise ConfigError("transactional_id must not be empty; None is for a producer without transactions")
        if self.acks not in (-1, "all"):
            raise ConfigError(f'transactional_id needs acks="all", not {self.acks!r}')
        if self.enable_idempotence is False:
            raise ConfigError("transactional_id needs enable_idempotence=True")

    @property
    def idempotent(self) -> bool:
        """Whether the producer requests a producer id and numbers its batches."""
        return self.acks in (-1, "all") if self.enable_idempotence is None else self.enable_idempotence

    @property
    def required_acks(self) -> int:
        """The option acks as the protocol has it: 0, 1, or -1 for all."""
        return -1 if self.acks == "all" else int(self.acks)


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
    fetch_min_bytes: Annotated[int, _size("The broker responds to a fetch once it has this many bytes.", 0)] = 1
    fetch_max_wait_ms: Annotated[int, _milliseconds("How long the broker waits for fetch_min_bytes.", 0, INT_MAX)] = 500
    fetch_max_bytes: Annotated[int, _size("The maximum size of a fetch; a larger batch is still returned.", 1)] = (
        52_428_800
    )
    max_partition_fetch_bytes: Annotated[int, _size("The maximum that one fetch returns of one partition.", 1)] = (
        1_048_576
    )
    prefetch_max_bytes: Annotated[
        int, _size("Fetching pauses while this many bytes are fetched and not read yet.", 1, LONG_MAX)
    ] = 67_108_864
    max_poll_records: Annotated[
        int, Option("The maximum number of records that poll() returns.", minimum=1, maximum=INT_MAX)
    ] = 500
    check_crcs: Annotated[bool, Option("Verify the checksum of each batch.")] = True
    isolation_level: Annotated[
        str, Option("Whether to read records of open and aborted transactions.", choices=tuple(ISOLATION_LEVELS))
    ] = "read_uncommitted"
    client_rack: Annotated[str, Option("The location of this client, to read from a near replica (KIP-392).")] = ""
    default_api_timeout_ms: Annotated[int, _milliseconds("The timeout of calls without a timeout of their own.")] = (
        60_000
    )
    close_timeout_ms: Annotated[int, _milliseconds(_CLOSE_TIMEOUT)] = 10_000
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
        int, _milliseconds("The coordinator removes a member that sends no heartbeat for this long.", 1, INT_MAX)
    ] = 45_000
    heartbeat_interval_ms: Annotated[int, _milliseconds("The time between two heartbeats.", 1, INT_MAX)] = 3_000
    max_poll_interval_ms: Annotated[
        int,
        _milliseconds(
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
    auto_commit_interval_ms: Annotated[int, _milliseconds("The time between two automatic commits.", 0, INT_MAX)] = (
        5_000
    )
    enable_auto_offset_store: Annotated[
        bool,
        Option("Whether the next poll marks records as processed; if False, only store_offsets() does."),
    ] = True
    stall_timeout_ms: Annotated[
        int,
        _milliseconds("A partition with records left that makes no progress for this long has stalled; 0 for never."),
    ] = 60_000
    on_stall: Annotated[
        StallCallback | None,
        Option(
            "Called, once for each stall, with the health of the partitions that stalled, by partition; with none if "
            "the consumer has none, as it does not get into its group."
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
        _check_signatures(key_deserializer=self.key_deserializer, value_deserializer=self.value_deserializer)
        _check_interceptors(self.interceptors, "on_consume", "on_commit")
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


class AdminConfig(ClientConfig, frozen=True, kw_only=True):
    """Options of Admin and AsyncAdmin."""

    default_api_timeout_ms: Annotated[int, _milliseconds("The timeout of calls without a timeout of their own.")] = (
        60_000
    )
    close_timeout_ms: Annotated[int, _milliseconds(_CLOSE_TIMEOUT)] = 10_000
    connections_max_idle_ms: Annotated[
        int, _milliseconds("Idle connections are closed after this long; -1 for never.", -1)
    ] = 300_000


def options_of(config: type[ClientConfig]) -> dict[str, tuple[Option, Any]]:
    """Return every option of a config class with its description and default, for documentation."""
    defaults = dict(zip(config.__struct_fields__, config.__struct_defaults__, strict=True))
    return {name: (_option(hint), defaults[name]) for name, hint in _hints(config).items() if name in defaults}


def dotted_name(config: type[ClientConfig], name: str) -> str:
    """Return Kafka's own name of an option."""
    return _option(_hints(config)[name]).kafka or name.replace("_", ".")


def _check_interceptors(interceptors: Sequence[Any], first: str, second: str) -> None:
    for interceptor in interceptors:
        if isinstance(interceptor, type):
            raise ConfigError(should_be_instance("an interceptor", interceptor))
        if not (hasattr(interceptor, first) or hasattr(interceptor, second)):
            raise ConfigError(f"an interceptor has {first}, {second} or both, not {interceptor!r}")


def _check_signatures(**functions: Callable[..., Any] | None) -> None:
    for option, function in functions.items():
        if function is not None:
            takes_context(function, option)


_HINTS: dict[type, dict[str, Any]] = {}


def _hints(config: type) -> dict[str, Any]:
    if config not in _HINTS:
        _HINTS[config] = typing.get_type_hints(config, include_extras=True)
    return _HINTS[config]


def _option(hint: Any) -> Option:
    return next(extra for extra in hint.__metadata__ if isinstance(extra, Option))


def _unknown(name: str, config: type[ClientConfig], spelling: Mapping[str, str]) -> str:
    clients = {"producers": ProducerConfig, "consumers": ConsumerConfig, "admins": AdminConfig}
    others = {client: kind.__struct_fields__ for client, kind in clients.items() if kind is not config}
    return unknown_option(name, spelling, others)


def _kinds(annotation: Any) -> tuple[Any, ...]:
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    return typing.get_args(annotation) if is_union else (annotation,)


def _check(name: str, hint: Any, value: Any) -> None:
    option = _option(hint)
    kinds = _kinds(hint.__origin__)
    plain = {kind for kind in kinds if kind in (int, str, bool, types.NoneType)}
    if plain and len(plain) == len(kinds) and type(value) not in plain:
        expected = " or ".join(sorted("None" if kind is types.NoneType else kind.__name__ for kind in plain))
        raise ConfigError(f"{name} must be {expected}, not {value!r}")
    # A .properties file written for Java contains names of classes.
    if any(typing.get_origin(kind) is Callable for kind in kinds) and not (value is None or callable(value)):
        raise ConfigError(f"{name} must be a function or None, not {value!r}")
    if typing.get_origin(hint.__origin__) is Sequence and (isinstance(value, str) or not isinstance(value, Sequence)):
        raise ConfigError(f"{name} must be a list of objects, not {value!r}")
    if option.choices and value not in option.choices:
        raise ConfigError(f"{name} must be one of {', '.join(map(repr, option.choices))}, not {value!r}")
    if isinstance(value, int) and not option.choices and (option.special is None or value != option.special):
        low, high = option.minimum, option.maximum
        if (low is not None and value < low) or (high is not None and value > high):
            unit = f" {option.unit}" if option.unit else ""
            special = "" if option.special is None else f", or {option.special}"
            raise ConfigError(f"{name} must be from {low} to {high}{unit}{special}, not {value}")


def _parse(name: str, hint: Any, text: str) -> Any:
    # As Kafka does: a .properties file keeps the blanks at the end of a line.
    text = text.strip()
    kinds = _kinds(hint.__origin__)
    if bool in kinds:
        if text.lower() not in ("true", "false"):
            raise ConfigError(f"{name} must be true or false, not {text!r}")
        return text.lower() == "true"
    if int in kinds:
        try:
            return int(text)
        except ValueError:
            if str not in kinds:
                raise ConfigError(f"{name} must be a whole number, not {text!r}") from None
    return text
