"""The table of the data source's options: each with its name, how its value is read, and what it does.

`docs/spark.md` is made from it. Leaves out what options mean together (`options`).
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
        raise OptionError(f"{option} must be a regular expression, and {text!r} is none: {error}") from None
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
    """An option that exists.

    Attributes:
        name: as Spark's connector spells it.
        field: of the struct that has its value.
        parse: reads the value, given the name; raises OptionError.
        doc: what it does, for the documentation.
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
        "Topics whose whole name matches a regular expression; a stream finds new ones on its way. If none does, there "
        "are no rows, and a warning; a missing topic of `subscribe` is an error.",
    ),
    Known("assign", "assign", _partitions, 'Partitions by topic, as JSON: `{"orders": [0, 1]}`.'),
    Known(
        "startingOffsets",
        "starting_offsets",
        parse_bound,
        "`earliest`, `latest` (not in a batch), `committed` (by the group `kafka.group.id`), or JSON by "
        'topic and partition, with -2 for the earliest and -1 for the latest offset: `{"orders": {"0": 23, '
        '"1": -2}}`. A batch starts at the earliest; a stream, when it has no checkpoint yet, at the '
        "latest. A partition for which the group has committed nothing is read from its earliest offset, with a "
        "warning; a group that has committed nothing for any is an error.",
    ),
    Known(
        "startingOffsetsByTimestamp",
        "starting_times",
        parse_by_partition,
        "Start at the first record as young as this, in milliseconds since the epoch, by topic and "
        'partition: `{"orders": {"0": 1700000000000}}`.',
    ),
    Known("startingTimestamp", "starting_time", _time, "The same time for all partitions; goes before the two above."),
    Known(
        "startingOffsetsByTimestampStrategy",
        "starting_strategy",
        _choice("error", "latest"),
        "What a start by time does where no record is so young: `error` (the default), or `latest`, which "
        "starts at the end.",
    ),
    Known(
        "endingOffsets",
        "ending_offsets",
        parse_bound,
        "Where a batch ends: `latest` (the default), or JSON by topic and partition, in which -1 is the latest offset.",
    ),
    Known(
        "endingOffsetsByTimestamp",
        "ending_times",
        parse_by_partition,
        "End before the first record as young as this, by topic and partition.",
    ),
    Known("endingTimestamp", "ending_time", _time, "The same time for all partitions."),
    Known(
        "minPartitions",
        "min_partitions",
        _count,
        "The least number of tasks: ranges of offsets are divided until there are so many.",
    ),
    Known("maxRecordsPerPartition", "max_records_per_partition", _count, "The most offsets of a task."),
    Known("failOnDataLoss", "fail_on_data_loss", _flag, "Whether it is an error that records to be read are gone."),
    Known("includeHeaders", "include_headers", _flag, "Add the column `headers`; false by default."),
    Known(
        "columns",
        "columns",
        lambda option, text: parse_columns(text),
        "Only these columns, in this order: `key,value,timestamp`. What is left out is not decoded.",
    ),
    Known(
        "groupIdPrefix",
        "group_id_prefix",
        _name,
        "What the clients are called; there is no group to read, as the connector has.",
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
        "Taken for the connector's sake: the client retries by itself, for `kafka.default.api.timeout.ms`.",
    ),
    Known("fetchOffset.retryIntervalMs", "fetch_interval", _from_zero, "Likewise."),
    Known(
        "maxOffsetsPerTrigger",
        "max_offsets_per_trigger",
        _count,
        "The most offsets of a micro-batch, shared out over the partitions in proportion to what they have. Shares are "
        "rounded down, as the connector's are, so that there may be a few less.",
    ),
    Known("minOffsetsPerTrigger", "min_offsets_per_trigger", _count, "A micro-batch waits for so many offsets ..."),
    Known("maxTriggerDelay", "max_trigger_delay_ms", _duration, "... but not longer than this: `500ms`, `30s`, `15m`."),
    Known(
        "commitOffsetsToGroup",
        "commit_offsets_to_group",
        _name,
        "Commit how far a stream is to this group, so that Kafka's own tools show its lag. The checkpoint "
        "alone decides where it goes on.",
    ),
)
WRITE = _table(
    Known("topic", "topic", _name, "The topic of all rows, before the column `topic`."),
    Known("delivery", "delivery", _choice("at_least_once", "exactly_once"), "`at_least_once` or `exactly_once`."),
    Known(
        "decisionTopic",
        "decision_topic",
        _name,
        "With `exactly_once`: an existing topic, to which nothing is written; the commit of a batch is an "
        "offset for it. `topic` by default, so it is needed where rows have a column of topics.",
    ),
    Known(
        "transactionalIdPrefix",
        "transactional_id_prefix",
        _name,
        "With `exactly_once`: what the query's transactional ids and its group begin with, for an ACL; "
        "`kclient-spark` by default.",
    ),
    Known(
        "repeatableInput",
        "repeatable_input",
        _flag,
        "With `exactly_once`: `true` says that a batch that is read again gives the same rows to the same tasks, so "
        "that what a late recovery finds lost can be written anew; `false`, that it may give others, so that a batch "
        "that was decided is not compared with what it is after a restart. By default it must have as many rows.",
    ),
    Known(
        "writeId",
        "write_id",
        _name,
        "With `exactly_once`, and not in a stream: a name for this write, under which repeating it writes "
        "nothing; one is drawn by default.",
    ),
)
OF_SPARK = frozenset({"checkpointlocation", "queryname", "outputmode"})
"""What Spark itself puts among the options of a stream's sink."""

DECIDED_HERE = {
    "auto.offset.reset": "startingOffsets says where to start",
    "enable.auto.commit": "a stream keeps its offsets in its checkpoint, and commitOffsetsToGroup shows them",
    "allow.auto.create.topics": "a topic that is read must exist",
    "key.deserializer": "keys are binary; cast or decode the column",
    "value.deserializer": "values are binary; cast or decode the column",
    "key.serializer": "keys are binary or strings; cast or encode the column",
    "value.serializer": "values are binary or strings; cast or encode the column",
    "interceptor.classes": "records go from Arrow's buffers into batches, and back",
    "group.instance.id": "Spark divides the partitions, not a group",
    "transactional.id": "delivery=exactly_once makes the transactions",
}
