"""The options of producers, and which of them contradict each other."""

from collections.abc import Sequence
from typing import Annotated, Any

from kclient import _compression
from kclient._bound_serializers import check_signatures
from kclient.config.client import CLOSE_TIMEOUT, ClientConfig, check_interceptors
from kclient.config.options import INT_MAX, LONG_MAX, Option, milliseconds, size
from kclient.errors import ConfigError
from kclient.serialization import Serializer


def _level(codec: str, doc: str) -> Option:
    levels = _compression.LEVELS[codec]
    return Option(
        doc,
        minimum=levels.least,
        maximum=levels.greatest,
        special=levels.special,
        kafka=f"compression.{codec}.level",
    )


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
    linger_ms: Annotated[int, milliseconds("How long a batch waits for more records.")] = 5
    batch_size: Annotated[int, size("A batch is sent when it has this many bytes.")] = 1_000_000
    buffer_memory: Annotated[
        int, size("Bytes of records that may wait to be sent; send() blocks while it is full.", 1, LONG_MAX)
    ] = 33_554_432
    max_block_ms: Annotated[int, milliseconds("How long send() may wait for buffer memory or for metadata.")] = 60_000
    max_request_size: Annotated[int, size("The largest size of a request, and therefore of a record.", 1)] = 1_048_576
    max_in_flight_requests_per_connection: Annotated[
        int, Option("The number of requests to one broker that may be in flight.", minimum=1, maximum=INT_MAX)
    ] = 5
    delivery_timeout_ms: Annotated[int, milliseconds("How long delivery may take, retries included.", 1)] = 120_000
    retries: Annotated[int, Option("The maximum number of retries of a batch.", minimum=0, maximum=INT_MAX)] = INT_MAX
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
        int, milliseconds("Avoid partitions whose broker has accepted nothing for this long; 0 for never.")
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
        int, milliseconds("The coordinator aborts a transaction that stays open for longer.", 1, INT_MAX)
    ] = 60_000
    close_timeout_ms: Annotated[
        int | None, milliseconds(f"{CLOSE_TIMEOUT} None: until each record is delivered or failed.")
    ] = None
    metadata_max_idle_ms: Annotated[
        int, milliseconds("Metadata of a topic is dropped after this long without a record for it.", 5_000)
    ] = 300_000

    def __post_init__(self) -> None:
        super().__post_init__()
        check_signatures(key_serializer=self.key_serializer, value_serializer=self.value_serializer)
        check_interceptors(self.interceptors, "on_send", "on_acknowledgement")
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
