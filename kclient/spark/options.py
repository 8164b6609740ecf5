"""The options of the data source, with the names of Spark's own Kafka connector, parsed into frozen structs.

Spark passes options as text with case-insensitive names. Options that begin with `kafka.` are options of the client,
with Kafka's dotted names. An unknown option is an error that suggests the nearest name. Only this source has `columns`,
`commitOffsetsToGroup`, and `delivery` with the options of `exactly_once`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import msgspec

from kclient.config import ClientConfig, ConsumerConfig, ProducerConfig
from kclient.errors import ConfigError
from kclient.spark.client_options import ClientOptions
from kclient.spark.errors import OptionError, as_in_spark
from kclient.spark.offsets import EARLIEST, LATEST, Bound, Kind
from kclient.spark.option_table import DECIDED_HERE, READ, SPARKS_OWN, WRITE, Known
from kclient.spark.schema import HEADERS, default_columns

SERVERS = "bootstrap.servers"
GROUP = "group.id"
PREFIX = "kafka."
ISOLATION = "isolation.level"
UNCOMMITTED = "read_uncommitted"


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a read, batch or streaming.

    Attributes:
        client: options of the consumers, by Kafka's dotted names; with `bootstrap.servers`.
        subscribe, subscribe_pattern, assign: the topics by name, a pattern of whole topic names, or the partitions by
            topic. Exactly one is not None.
        starting, ending: the start and end; None for the default of a batch or a stream.
        min_partitions: the least number of tasks.
        max_records_per_partition: the most offsets of a task.
        fail_on_data_loss: whether lost records are an error.
        columns: the columns for Spark, in order.
        poll_timeout_ms: how long a task waits for the next record before it fails, in ms.
        max_offsets_per_trigger, min_offsets_per_trigger: the most and the least of a micro-batch, in offsets.
        max_trigger_delay_ms: the time in ms after which a micro-batch may have fewer.
        commit_offsets_to_group: the group that shows the progress of a stream in Kafka's tools.
    """

    client: dict[str, str]
    subscribe: tuple[str, ...] | None = None
    subscribe_pattern: str | None = None
    assign: dict[str, list[int]] | None = None
    starting: Bound | None = None
    ending: Bound | None = None
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    fail_on_data_loss: bool = True
    columns: tuple[str, ...] = ()
    poll_timeout_ms: int = 120_000
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 900_000
    commit_offsets_to_group: str | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """Parse the options from Spark.

        Raises:
            OptionError: an option does not exist, has an invalid value, or contradicts another one.
        """
        given, client = _read(options, READ, ConsumerConfig)
        if sum(given.get(name) is not None for name in ("subscribe", "subscribe_pattern", "assign")) != 1:
            raise OptionError("set what to read with exactly one of subscribe, subscribePattern and assign")
        _name_clients(client, given.pop("group_id_prefix", None))
        _name_group(client, given.get("commit_offsets_to_group"))
        starting, ending = _bound(given, "starting"), _bound(given, "ending")
        if ending is not None and ending.kind is Kind.COMMITTED:
            raise OptionError(f"{ending.option} cannot be committed; only a start can")
        columns = given.pop("columns", None)
        include_headers = given.pop("include_headers", False)
        if columns is None:
            columns = default_columns(include_headers)
        elif include_headers and HEADERS not in columns:
            raise OptionError("includeHeaders=true and columns without headers contradict each other")
        for name in ("fetch_retries", "fetch_interval"):
            given.pop(name, None)
        return cls(client=client, starting=starting, ending=ending, columns=columns, **given)

    @property
    def servers(self) -> str:
        """The bootstrap servers, as in the option."""
        return self.client[SERVERS]

    def for_batch(self) -> ReadOptions:
        """Return these options with the defaults of a batch: from the earliest to the latest offset.

        Raises:
            OptionError: the start or the end is not possible in a batch.
        """
        starting = self.starting or Bound(kind=Kind.EARLIEST, option="startingOffsets")
        ending = self.ending or Bound(kind=Kind.LATEST, option="endingOffsets")
        if LATEST in starting.special():
            raise OptionError(f"{starting.option} cannot be latest in a batch: nothing would be read")
        if EARLIEST in ending.special():
            raise OptionError(f"{ending.option} cannot be earliest: nothing would be read")
        return msgspec.structs.replace(self, starting=starting, ending=ending)

    def for_whole_logs(self) -> ReadOptions:
        """Return these options for reading the ends of logs regardless of open transactions."""
        if self.client.get(ISOLATION, UNCOMMITTED) == UNCOMMITTED:
            return self
        return msgspec.structs.replace(self, client=ClientOptions({**self.client, ISOLATION: UNCOMMITTED}))

    def for_stream(self) -> ReadOptions:
        """Return these options with the defaults of a stream: from the latest offset on.

        Raises:
            OptionError: an option is not possible in a stream, or two contradict each other.
        """
        if self.ending is not None:
            raise OptionError(f"{self.ending.option} is for batches; a stream continues, or ends with its trigger")
        least, most = self.min_offsets_per_trigger, self.max_offsets_per_trigger
        if least is not None and most is not None and least > most:
            raise OptionError(f"minOffsetsPerTrigger={least} is more than maxOffsetsPerTrigger={most}")
        starting = self.starting or Bound(kind=Kind.LATEST, option="startingOffsets")
        return msgspec.structs.replace(self, starting=starting)


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a write, batch or streaming.

    Attributes:
        client: options of the producers, by Kafka's dotted names; with `bootstrap.servers`.
        topic: the topic of all rows; None takes it from the column `topic`.
        delivery: `at_least_once` or `exactly_once`; the following attributes are for the latter.
        decision_topic: an existing topic for which the query commits an offset per batch; None takes `topic`.
        transactional_id_prefix: the prefix of its group and transactional ids; None for the default.
        repeatable_input: whether a batch that is read again gives the same rows to the same tasks; None if it gives as
            many.
        write_id: the id of a batch write, by which a repetition is recognized; None for a random one.
    """

    client: dict[str, str]
    topic: str | None = None
    delivery: str = "at_least_once"
    decision_topic: str | None = None
    transactional_id_prefix: str | None = None
    repeatable_input: bool | None = None
    write_id: str | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> WriteOptions:
        """Parse the options from Spark.

        Raises:
            OptionError: an option does not exist or has an invalid value.
        """
        given, client = _read(options, WRITE, ProducerConfig)
        return cls(client=client, **given)

    @property
    def servers(self) -> str:
        """The bootstrap servers, as in the option."""
        return self.client[SERVERS]


def _read(
    options: Mapping[str, str], table: Mapping[str, Known], config: type[ClientConfig]
) -> tuple[dict[str, Any], ClientOptions]:
    """Return the parsed options by field, and the options of the client."""
    given: dict[str, Any] = {}
    client = ClientOptions()
    for name, text in options.items():
        low = name.lower()
        if low.startswith(PREFIX):
            client[low.removeprefix(PREFIX)] = text
        elif low in table:
            known = table[low]
            given[known.field] = known.parse(known.name, text)
        elif low not in SPARKS_OWN or table is not WRITE:
            raise OptionError(_unknown(name, table))
    _check_client(client, config)
    return given, client


def _check_client(client: Mapping[str, str], config: type[ClientConfig]) -> None:
    for name, instead in DECIDED_HERE.items():
        if name in client:
            raise OptionError(f"{PREFIX}{name} cannot be set: {instead}")
    if not client.get(SERVERS, "").strip():
        raise OptionError(f'{PREFIX}{SERVERS} is missing: set the addresses of brokers, as "host:port,host:port"')
    try:
        config.from_properties(client)
    except ConfigError as error:
        said = as_in_spark(error.message)
        if said.partition(" ")[0] in client:
            said = PREFIX + said
        raise OptionError(said if PREFIX in said else f"{PREFIX}*: {said}") from None


def _unknown(name: str, table: Mapping[str, Known]) -> str:
    low = name.lower()
    if low == "path":
        return "load() and save() take no path here: subscribe names what to read, and topic where to write"
    other = WRITE if table is READ else READ
    if low in other:
        return f"{other[low].name} is an option for {'writing' if table is READ else 'reading'}"
    names = {**{key: known.name for key, known in table.items()}, f"{PREFIX}{SERVERS}": f"{PREFIX}{SERVERS}"}
    nearest = difflib.get_close_matches(low, names, n=1, cutoff=0.6)
    hint = f"; did you mean {names[nearest[0]]}?" if nearest else f"; there are {', '.join(names.values())}, {PREFIX}*"
    return f"there is no option {name!r}{hint}"


def _bound(given: dict[str, Any], which: str) -> Bound | None:
    """Return the bound from the three options that may set it; the connector's order of precedence applies."""
    offsets, times = given.pop(f"{which}_offsets", None), given.pop(f"{which}_times", None)
    time, strategy = given.pop(f"{which}_time", None), given.pop(f"{which}_strategy", "error")
    latest_if_none = which == "ending" or strategy == "latest"
    if time is not None:
        return Bound(kind=Kind.TIMES, option=f"{which}Timestamp", time=time, latest_if_none=latest_if_none)
    if times is not None:
        option = f"{which}OffsetsByTimestamp"
        return Bound(kind=Kind.TIMES, option=option, values=times, latest_if_none=latest_if_none)
    bound: Bound | None = offsets
    return bound


def _name_clients(client: dict[str, str], prefix: str | None) -> None:
    """Name the clients after groupIdPrefix: the connector's consumers need a group, and these do not."""
    client.setdefault("client.id", f"{prefix or 'spark-kafka-source'}-kclient")


def _name_group(client: dict[str, str], commit_to: str | None) -> None:
    if commit_to is not None and client.setdefault(GROUP, commit_to) != commit_to:
        raise OptionError(f"commitOffsetsToGroup={commit_to} and {PREFIX}{GROUP}={client[GROUP]} are different groups")
