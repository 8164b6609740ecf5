"""The table of the data source's options: name, parser, and description of each.

`docs/spark.md` is generated from it. Elsewhere: combinations of options (`options`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from kclient.spark.errors import OptionError
from kclient.spark.offsets import parse_bound, parse_by_partition
from kclient.spark.schema import parse_columns

# -- values


def _names(option: str, text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise OptionError(f"{option} must name topics, separated by commas, not {text!r}")
    return names


def _name(option: str, text: str) -> str:
    if not text.strip():
        raise OptionError(f"{option} must not be empty")
    return text.strip()


def _pattern(option: str, text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise OptionError(f"{option} must be a regular expression, not {text!r}: {error}") from None
    return text


def _partitions(option: str, text: str) -> dict[str, list[int]]:
    try:
        found = msgspec.json.decode(text, type=dict[str, list[int]])
    except msgspec.DecodeError:
        found = {}
    if not found or not all(found.values()) or any(number < 0 for numbers in found.values() for number in numbers):
        raise OptionError(f'{option} must be JSON such as {{"topic": [0, 1]}}, not {text!r}')
    return found


def _count(option: str, text: str) -> int:
    if not text.strip().isdecimal() or int(text) == 0:
        raise OptionError(f"{option} must be a whole number above 0, not {text!r}")
    return int(text)


def _from_zero(option: str, text: str) -> int:
    if not text.strip().isdecimal():
        raise OptionError(f"{option} must be a whole number from 0, not {text!r}")
    return int(text)


def _time(option: str, text: str) -> int:
    if not text.strip().isdecimal():
        raise OptionError(f"{option} must be milliseconds since the epoch, such as 1700000000000, not {text!r}")
    return int(text)


def _flag(option: str, text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise OptionError(f"{option} must be true or false, not {text!r}")
    return text.strip().lower() == "true"


_UNITS = {"us": 0.001, "ms": 1, "": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def _duration(option: str, text: str) -> int:
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", text.strip().lower())
    if match is None or match[2] not in _UNITS:
        raise OptionError(f"{option} must be a duration such as 500ms, 30s or 15m, not {text!r}")
    return int(int(match[1]) * _UNITS[match[2]])


def _choice(*choices: str) -> Callable[[str, str], str]:
    def parse(option: str, text: str) -> str:
        if text.strip().lower() not in choices:
            raise OptionError(f"{option} must be {' or '.join(choices)}, not {text!r}")
        return text.strip().lower()

    return parse


# -- names


class Known(NamedTuple):
    """An option of the data source.

    Attributes:
        name: the name, as in Spark's connector.
        field: the field of the struct with its value.
        parse: parses the value, given the name; raises OptionError.
        doc: the description for the documentation.
    """

    name: str
    field: str
    parse: Callable[[str, str], Any]
    doc: str


def _table(*known: Known) -> dict[str, Known]:
    return {one.name.lower(): one for one in known}


READ = _table(
    Known("subscribe", "subscribe", _names, "Topics by name, separated by commas."),
    Known(
        "subscribePattern",
        "subscribe_pattern",
        _pattern,
        "Topics whose whole name matches a regular expression; a stream adds new ones. If none matches, there are no "
        "rows, and a warning is logged; a missing topic of `subscribe` is an error.",
    ),
    Known("assign", "assign", _partitions, 'Partitions by topic, as JSON: `{"orders": [0, 1]}`.'),
    Known(
        "startingOffsets",
        "starting_offsets",
        parse_bound,
        "`earliest`, `latest` (not in a batch), `committed` (of the group `kafka.group.id`), or JSON by "
        'topic and partition, with -2 for the earliest and -1 for the latest offset: `{"orders": {"0": 23, '
        '"1": -2}}`. The default is the earliest for a batch, and the latest for a '
        "stream without a checkpoint. A partition without a committed offset is read from its earliest offset, with a "
        "warning; a group without any is an error.",
    ),
    Known(
        "startingOffsetsByTimestamp",
        "starting_times",
        parse_by_partition,
        "Start at the first record with this timestamp or a later one, in milliseconds since the epoch, by topic and "
        'partition: `{"orders": {"0": 1700000000000}}`.',
    ),
    Known(
        "startingTimestamp",
        "starting_time",
        _time,
        "The same time for all partitions; overrides the two options above.",
    ),
    Known(
        "startingOffsetsByTimestampStrategy",
        "starting_strategy",
        _choice("error", "latest"),
        "What happens if a partition has no record at or after that time: `error` (the default), or `latest`, "
        "which starts at the end.",
    ),
    Known(
        "endingOffsets",
        "ending_offsets",
        parse_bound,
        "The end of a batch: `latest` (the default), or JSON by topic and partition, in which -1 is the latest offset.",
    ),
    Known(
        "endingOffsetsByTimestamp",
        "ending_times",
        parse_by_partition,
        "End before the first record with this timestamp or a later one, by topic and partition.",
    ),
    Known("endingTimestamp", "ending_time", _time, "The same time for all partitions."),
    Known(
        "minPartitions",
        "min_partitions",
        _count,
        "The least number of tasks; ranges of offsets are divided accordingly.",
    ),
    Known("maxRecordsPerPartition", "max_records_per_partition", _count, "The most offsets of a task."),
    Known("failOnDataLoss", "fail_on_data_loss", _flag, "Whether lost records are an error."),
    Known("includeHeaders", "include_headers", _flag, "Add the column `headers`; false by default."),
    Known(
        "columns",
        "columns",
        lambda option, text: parse_columns(text),
        "Only these columns, in this order: `key,value,timestamp`. Other columns are not decoded.",
    ),
    Known(
        "groupIdPrefix",
        "group_id_prefix",
        _name,
        "The prefix of client ids; unlike the connector, this source reads without a group.",
    ),
    Known(
        "kafkaConsumer.pollTimeoutMs",
        "poll_timeout_ms",
        _count,
        "How long a task waits for the next record before it fails, in ms.",
    ),
    Known(
        "fetchOffset.numRetries",
        "fetch_retries",
        _from_zero,
        "Accepted for compatibility with the connector, without an effect: the client retries for "
        "`kafka.default.api.timeout.ms`.",
    ),
    Known("fetchOffset.retryIntervalMs", "fetch_interval", _from_zero, "Likewise."),
    Known(
        "maxOffsetsPerTrigger",
        "max_offsets_per_trigger",
        _count,
        "The most offsets of a micro-batch, divided among the partitions in proportion to their new offsets. Shares "
        "are rounded down, as in the connector, so there may be a few fewer.",
    ),
    Known(
        "minOffsetsPerTrigger",
        "min_offsets_per_trigger",
        _count,
        "The least offsets of a micro-batch; with fewer, it waits for more.",
    ),
    Known(
        "maxTriggerDelay",
        "max_trigger_delay_ms",
        _duration,
        "The longest time that a micro-batch waits for them: `500ms`, `30s`, `15m`.",
    ),
    Known(
        "commitOffsetsToGroup",
        "commit_offsets_to_group",
        _name,
        "Commit the progress of a stream to this group, so that Kafka's own tools show its lag. The stream continues "
        "from its checkpoint only.",
    ),
)
WRITE = _table(
    Known("topic", "topic", _name, "The topic of all rows; overrides the column `topic`."),
    Known("delivery", "delivery", _choice("at_least_once", "exactly_once"), "`at_least_once` or `exactly_once`."),
    Known(
        "decisionTopic",
        "decision_topic",
        _name,
        "With `exactly_once`: an existing topic for the committed offsets of batches; nothing is written to it. By "
        "default `topic`, so it is required if rows have a column of topics.",
    ),
    Known(
        "transactionalIdPrefix",
        "transactional_id_prefix",
        _name,
        "With `exactly_once`: the prefix of the query's transactional ids and group, for an ACL; by default "
        "`kclient-spark`.",
    ),
    Known(
        "repeatableInput",
        "repeatable_input",
        _flag,
        "With `exactly_once`: `true` if a repeated batch has the same rows in the same tasks, so that lost rows can be "
        "written again; `false` if it may have other rows, so that a decided batch is not compared after a restart. "
        "By default, it must have the same number of rows.",
    ),
    Known(
        "writeId",
        "write_id",
        _name,
        "With `exactly_once`, for a batch write: a name; a repetition with the same name writes nothing. By default "
        "random.",
    ),
)
SPARKS_OWN = frozenset({"checkpointlocation", "queryname", "outputmode"})
"""The options that Spark itself adds to those of a stream's sink."""

DECIDED_HERE = {
    "auto.offset.reset": "startingOffsets says where to start",
    "enable.auto.commit": "a stream stores its offsets in its checkpoint, and commitOffsetsToGroup commits them",
    "allow.auto.create.topics": "a topic that is read must exist",
    "key.deserializer": "keys are binary; cast or decode the column",
    "value.deserializer": "values are binary; cast or decode the column",
    "key.serializer": "keys are binary or strings; cast or encode the column",
    "value.serializer": "values are binary or strings; cast or encode the column",
    "interceptor.classes": "records are converted between Arrow's buffers and record batches directly",
    "group.instance.id": "Spark divides the partitions, not a group",
    "transactional.id": "delivery=exactly_once makes the transactions",
}
