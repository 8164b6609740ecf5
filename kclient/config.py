"""The options of every client: each stands here once, with its default, unit and range.

Names are Kafka's in Python's spelling, with Kafka's meaning and, unless DESIGN.md says
otherwise, 4.3's default. A config is a frozen struct built from keyword arguments
(`ProducerConfig.from_options`) or from dotted names (`from_properties`); an option that
does not exist, or a value out of range, is a ConfigError that says what would be right.
Elsewhere: the effect of each option, where it is used.
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
"""Whether aborted transactions show, by name, and as the protocol has it."""


class Option(msgspec.Struct, frozen=True):
    """What is known of an option besides its type and default.

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
"""The values of security_protocol that Kafka has and this version does not implement."""

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

ConnectivityCallback = Callable[[Any], Any]
"""Takes a Connectivity."""
StallCallback = Callable[[Mapping[Any, Any]], Any]
"""Takes a PartitionHealth by TopicPartition."""


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
            'Where to find the cluster: "host:port,host:port" or a sequence of them. The port is 9092 if it is missing.'
        ),
    ] = "localhost:9092"
    client_id: Annotated[str, Option("A name that shows in the broker's logs, quotas and metrics.")] = "kclient"
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
    request_timeout_ms: Annotated[int, _milliseconds("How long to wait for the answer to one request.", 1)] = 30_000
    reconnect_backoff_ms: Annotated[int, _milliseconds("The first wait before connecting to a broker again.")] = 50
    reconnect_backoff_max_ms: Annotated[int, _milliseconds("The longest wait before connecting again.")] = 1_000
    retry_backoff_ms: Annotated[int, _milliseconds("The first wait before a failed request is repeated.")] = 100
    retry_backoff_max_ms: Annotated[int, _milliseconds("The longest wait before a failed request is repeated.")] = 1_000
    socket_connection_setup_timeout_ms: Annotated[
        int, _milliseconds("How long setting up a connection may take, at first.", 1)
    ] = 10_000
    socket_connection_setup_timeout_max_ms: Annotated[
        int, _milliseconds("How long setting up a connection may take after several failures in a row.", 1)
    ] = 30_000
    connections_max_idle_ms: Annotated[
        int, _milliseconds("An idle connection is closed after this long; -1 for never.", -1)
    ] = 540_000
    metadata_max_age_ms: Annotated[int, _milliseconds("Metadata is refreshed at least this often.", 1)] = 300_000
    metadata_recovery_strategy: Annotated[
        str, Option("What to do when no known broker answers (KIP-899).", choices=("rebootstrap", "none"))
    ] = "rebootstrap"
    metadata_recovery_rebootstrap_trigger_ms: Annotated[
        int, _milliseconds("Start over from bootstrap_servers after this long without metadata (KIP-1102).")
    ] = 300_000
    send_buffer_bytes: Annotated[int, _size("SO_SNDBUF of the sockets; -1 leaves it to the system.", -1)] = -1
    receive_buffer_bytes: Annotated[int, _size("SO_RCVBUF of the sockets; -1 leaves it to the system.", -1)] = -1
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
            raise ConfigError(f'bootstrap_servers must be "host:port,host:port" or a sequence of such, not {servers!r}')
        for name in self.__struct_fields__:
            _check(name, hints[name], getattr(self, name))
        if is_coroutine_function(self.on_connectivity_change):
            raise ConfigError("on_connectivity_change must be a plain function: a coroutine function is not awaited")
        protocol = self.security_protocol.upper()
        if protocol in _PROTOCOLS_TO_COME:
            raise ConfigError(
                f'security_protocol="{protocol}" is not implemented yet. Use "PLAINTEXT" and a listener for it.'
            )
        if protocol != "PLAINTEXT":
            raise ConfigError(f'security_protocol must be "PLAINTEXT", not {self.security_protocol!r}')

    @property
    def label(self) -> str:
        """The client's name in log lines and warnings, as "producer 'billing'"."""
        return f"{type(self).__name__.removesuffix('Config').lower()} {self.client_id!r}"

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Build a config from Python names.

        Raises:
            ConfigError: an option does not exist (the nearest one is named) or its value does not fit.
        """
        unknown = [name for name in options if name not in cls.__struct_fields__]
        if unknown:
            raise ConfigError(_unknown(unknown[0], cls, {name: name for name in cls.__struct_fields__}))
        return cls(**options)

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any] | str | os.PathLike[str], **options: Any) -> Self:
        """Build a config from Kafka's dotted names: a mapping, or the path of a .properties file.

        Values may be strings, as in a file; keyword arguments use Python names and win.
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
        int | str, Option('Who must have a record before it counts as sent: 0, 1 or "all".', choices=(0, 1, -1, "all"))
    ] = "all"
    enable_idempotence: Annotated[
        bool | None,
        Option("No duplicates and no reordering by retries. Unset: on, unless acks says otherwise."),
    ] = None
    linger_ms: Annotated[int, _milliseconds("How long a batch waits for company.")] = 5
    batch_size: Annotated[int, _size("A batch is sent when it has this many bytes; buffers grow with use.")] = 1_000_000
    buffer_memory: Annotated[
        int, _size("Bytes of records that may wait to be sent; then send() blocks.", 1, LONG_MAX)
    ] = 33_554_432
    max_block_ms: Annotated[int, _milliseconds("How long send() may wait for room or for metadata.")] = 60_000
    max_request_size: Annotated[int, _size("The largest request, and so the largest record.", 1)] = 1_048_576
    max_in_flight_requests_per_connection: Annotated[
        int, Option("Requests on their way to one broker at once.", minimum=1, maximum=INT_MAX)
    ] = 5
    delivery_timeout_ms: Annotated[int, _milliseconds("How long delivery may take, retries included.", 1)] = 120_000
    retries: Annotated[int, Option("How often a send is repeated at most.", minimum=0, maximum=INT_MAX)] = INT_MAX
    compression_type: Annotated[str, Option("The codec of batches.", choices=_compression.NAMES)] = "none"
    compression_gzip_level: Annotated[int, _level("gzip", "gzip's level; -1 is zlib's own default.")] = (
        _compression.LEVELS["gzip"].default
    )
    compression_lz4_level: Annotated[int, _level("lz4", "lz4's level.")] = _compression.LEVELS["lz4"].default
    compression_zstd_level: Annotated[int, _level("zstd", "zstd's level.")] = _compression.LEVELS["zstd"].default
    partitioner: Annotated[
        Any,
        Option(
            'Picks the partition: "default" (murmur2 of the key, else sticky), "round_robin", "random", '
            '"consistent_random", or an object of your own (see kclient.producer.partitioners).'
        ),
    ] = "default"
    partitioner_ignore_keys: Annotated[bool, Option("Spread records with keys like records without.")] = False
    partitioner_adaptive_partitioning_enable: Annotated[
        bool, Option("Send more to partitions whose broker answers faster (KIP-794).")
    ] = True
    partitioner_availability_timeout_ms: Annotated[
        int, _milliseconds("Avoid partitions whose broker takes nothing for this long; 0 for never.")
    ] = 0
    key_serializer: Annotated[Serializer | None, Option("Makes a key's bytes; None takes bytes as they are.")] = None
    value_serializer: Annotated[Serializer | None, Option("Makes a value's bytes; None takes bytes as they are.")] = (
        None
    )
    interceptors: Annotated[
        Sequence[Any], Option("Objects with on_send, on_acknowledgement or both.", kafka="interceptor.classes")
    ] = ()
    transactional_id: Annotated[
        str | None,
        Option("The name under which transactions are made; a new producer of the same name fences the one before."),
    ] = None
    transaction_timeout_ms: Annotated[
        int, _milliseconds("The coordinator aborts a transaction that is open for this long.", 1, INT_MAX)
    ] = 60_000
    close_timeout_ms: Annotated[
        int | None, _milliseconds(f"{_CLOSE_TIMEOUT} None: until each record is delivered or failed.")
    ] = None
    metadata_max_idle_ms: Annotated[
        int, _milliseconds("A topic not produced to for this long is forgotten.", 5_000)
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
                raise ConfigError("retries=0 needs enable_idempotence=False as well, if that is meant")
            if self.max_in_flight_requests_per_connection > 5:
                raise ConfigError(
                    "an idempotent producer allows at most 5 max_in_flight_requests_per_connection: "
                    "say enable_idempotence=False as well if that is meant"
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
            raise ConfigError("transactional_id must be a name, or None for a producer without transactions")
        if self.acks not in (-1, "all"):
            raise ConfigError(f'transactional_id needs acks="all", not {self.acks!r}')
        if self.enable_idempotence is False:
            raise ConfigError("transactional_id needs enable_idempotence, which must not be False")

    @property
    def idempotent(self) -> bool:
        """Whether the producer asks for a producer id and numbers its batches."""
        return self.acks in (-1, "all") if self.enable_idempotence is None else self.enable_idempotence

    @property
    def required_acks(self) -> int:
        """acks as the protocol has it: 0, 1, or -1 for all."""
        return -1 if self.acks == "all" else int(self.acks)


_OF_THE_OTHER = {
    "classic": ("group_remote_assignor",),
    "consumer": ("session_timeout_ms", "heartbeat_interval_ms", "partition_assignment_strategy"),
}
"""By group protocol, the options that only the other one has."""


def _is_instance_id(name: str) -> bool:
    return re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", name) is not None and name not in (".", "..")


class ConsumerConfig(ClientConfig, frozen=True, kw_only=True):
    """Options of Consumer and AsyncConsumer."""

    auto_offset_reset: Annotated[
        str,
        Option(
            'Where to start without a valid position: "earliest", "latest", "none" (an error), or '
            '"by_duration:PT1H" (that long ago, ISO 8601; KIP-1106).'
        ),
    ] = "latest"
    fetch_min_bytes: Annotated[int, _size("The broker answers a fetch once it has this much.", 0)] = 1
    fetch_max_wait_ms: Annotated[int, _milliseconds("... or once it waited for this long.", 0, INT_MAX)] = 500
    fetch_max_bytes: Annotated[int, _size("The most one fetch brings; a larger batch still arrives.", 1)] = 52_428_800
    max_partition_fetch_bytes: Annotated[int, _size("The most one fetch brings of one partition.", 1)] = 1_048_576
    prefetch_max_bytes: Annotated[
        int, _size("Fetching pauses while this much is fetched and not read yet.", 1, LONG_MAX)
    ] = 67_108_864
    max_poll_records: Annotated[int, Option("The most records one poll() returns.", minimum=1, maximum=INT_MAX)] = 500
    check_crcs: Annotated[bool, Option("Verify each batch's checksum.")] = True
    isolation_level: Annotated[str, Option("Whether aborted transactions show.", choices=tuple(ISOLATION_LEVELS))] = (
        "read_uncommitted"
    )
    client_rack: Annotated[str, Option("Where this client is, to read from a near replica (KIP-392).")] = ""
    default_api_timeout_ms: Annotated[int, _milliseconds("The timeout of calls that are given none.")] = 60_000
    close_timeout_ms: Annotated[int, _milliseconds(_CLOSE_TIMEOUT)] = 10_000
    key_deserializer: Annotated[Deserializer | None, Option("Makes a key of its bytes; None leaves bytes.")] = None
    value_deserializer: Annotated[Deserializer | None, Option("Makes a value of its bytes; None leaves bytes.")] = None
    interceptors: Annotated[
        Sequence[Any], Option("Objects with on_consume, on_commit or both.", kafka="interceptor.classes")
    ] = ()
    allow_auto_create_topics: Annotated[bool, Option("Let the broker create a topic that is asked for.")] = True
    exclude_internal_topics: Annotated[
        bool, Option("A subscription by pattern leaves out the brokers' own topics, whatever they are called.")
    ] = True
    group_id: Annotated[
        str | None, Option("The group to share the topics with; None reads all partitions of them.")
    ] = None
    group_instance_id: Annotated[
        str | None,
        Option("Makes a static member, which gets its partitions back when it restarts within session_timeout_ms."),
    ] = None
    group_protocol: Annotated[
        str,
        Option(
            'Who divides the partitions: one of the members ("classic"), or the brokers ("consumer", KIP-848).',
            choices=("classic", "consumer"),
        ),
    ] = "classic"
    session_timeout_ms: Annotated[
        int, _milliseconds("The coordinator takes a member for dead that was silent for this long.", 1, INT_MAX)
    ] = 45_000
    heartbeat_interval_ms: Annotated[int, _milliseconds("A member tells this often that it lives.", 1, INT_MAX)] = 3_000
    max_poll_interval_ms: Annotated[
        int,
        _milliseconds("A member leaves when the application asks for no records for this long.", 1, INT_MAX),
    ] = 300_000
    partition_assignment_strategy: Annotated[
        str | Sequence[Any],
        Option(
            'How a group divides partitions: names ("range", "roundrobin", "sticky", "cooperative-sticky") or '
            "objects (see kclient.assignors), the preferred one first. Members use one that all of them have."
        ),
    ] = ("range", "cooperative-sticky")
    group_remote_assignor: Annotated[
        str | None,
        Option(
            'With group_protocol="consumer": the assignor that the brokers use, "uniform" or "range"; None for theirs.'
        ),
    ] = None
    enable_auto_commit: Annotated[bool, Option("Commit by itself what earlier polls returned.")] = True
    auto_commit_interval_ms: Annotated[int, _milliseconds("How often that is done.", 0, INT_MAX)] = 5_000
    enable_auto_offset_store: Annotated[
        bool,
        Option("Whether records count as processed by the next poll; False: only what store_offsets() is given does."),
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
        """See `ClientConfig.from_options`; what has no meaning beside the other options cannot be asked for.

        That is, what one group protocol leaves to the brokers or to the members, and automatic commits of no group.
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
            raise ConfigError("group_id must be a name, or None for a consumer without a group")
        if self.group_instance_id is not None and (
            self.group_id is None or not _is_instance_id(self.group_instance_id)
        ):
            raise ConfigError(
                "group_instance_id must be a name, as topics have them (letters, digits, '.', '_', '-'; at most 249), "
                f"and needs a group_id, not {self.group_instance_id!r} in group {self.group_id!r}"
            )
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                f"heartbeat_interval_ms ({self.heartbeat_interval_ms}) must be less than session_timeout_ms "
                f"({self.session_timeout_ms}), best a third of it"
            )

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether the consumer is in a group whose partitions the brokers divide (KIP-848)."""
        return self.group_id is not None and self.group_protocol == "consumer"

    @property
    def reads_committed(self) -> bool:
        """Whether the records of aborted and open transactions are left out."""
        return self.isolation_level == "read_committed"


class AdminConfig(ClientConfig, frozen=True, kw_only=True):
    """Options of Admin and AsyncAdmin."""

    default_api_timeout_ms: Annotated[int, _milliseconds("The timeout of calls that are given none.")] = 60_000
    close_timeout_ms: Annotated[int, _milliseconds(_CLOSE_TIMEOUT)] = 10_000
    connections_max_idle_ms: Annotated[
        int, _milliseconds("An idle connection is closed after this long; -1 for never.", -1)
    ] = 300_000


def options_of(config: type[ClientConfig]) -> dict[str, tuple[Option, Any]]:
    """Every option of a config class with its description and default, for documentation."""
    defaults = dict(zip(config.__struct_fields__, config.__struct_defaults__, strict=True))
    return {name: (_option(hint), defaults[name]) for name, hint in _hints(config).items() if name in defaults}


def dotted_name(config: type[ClientConfig], name: str) -> str:
    """Kafka's own name of an option."""
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
    # A .properties file written for Java has the names of classes here.
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
