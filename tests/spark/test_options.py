"""Options as Spark hands them over, and what is said about those that are wrong."""

from __future__ import annotations

import pickle

import pytest

from kclient.spark.errors import OptionError
from kclient.spark.offsets import Kind
from kclient.spark.options import ReadOptions, WriteOptions
from kclient.spark.schema import COLUMNS

SERVERS = {"kafka.bootstrap.servers": "somewhere:9092"}
ORDERS = {**SERVERS, "subscribe": "orders"}


def read(**options: str) -> ReadOptions:
    return ReadOptions.parse({**ORDERS, **options})


def test_names_are_those_of_the_connector_in_any_case() -> None:
    options = read(STARTINGOFFSETS="earliest", minpartitions="8", MaxRecordsPerPartition="100", failOnDataLoss="False")
    assert options.starting is not None
    assert options.starting.kind is Kind.EARLIEST
    assert (options.min_partitions, options.max_records_per_partition) == (8, 100)
    assert options.fail_on_data_loss is False


@pytest.mark.parametrize(
    "what", [{"subscribe": "a, b"}, {"subscribePattern": "a|b"}, {"assign": '{"a": [0], "b": [1, 2]}'}]
)
def test_each_of_three_options_selects_topics(what: dict[str, str]) -> None:
    options = ReadOptions.parse({**SERVERS, **what})
    given = (options.subscribe, options.subscribe_pattern, options.assign)
    expected = {
        "subscribe": (("a", "b"), None, None),
        "subscribePattern": (None, "a|b", None),
        "assign": (None, None, {"a": [0], "b": [1, 2]}),
    }
    assert given == expected[next(iter(what))]


@pytest.mark.parametrize("what", [{}, {"subscribe": "a", "subscribePattern": "b"}])
def test_no_such_option_or_several_are_an_error(what: dict[str, str]) -> None:
    with pytest.raises(OptionError, match="one of subscribe, subscribePattern and assign"):
        ReadOptions.parse({**SERVERS, **what})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOffset": "earliest"}, "there is no option 'startingOffset'; did you mean startingOffsets?"),
        ({"kafka.fetch.min.byte": "1"}, "there is no option 'fetch.min.byte'; did you mean 'fetch.min.bytes'?"),
        ({"bootstrap.servers": "x:1"}, "did you mean kafka.bootstrap.servers?"),
        ({"xyzzy": "1"}, "there is no option 'xyzzy'; there are subscribe, "),
        ({"topic": "orders"}, "topic is an option for writing"),
        ({"path": "/tmp"}, "subscribe names what to read"),
        ({"kafka.auto.offset.reset": "earliest"}, "startingOffsets says where to start"),
        ({"kafka.key.deserializer": "x"}, "keys are binary"),
        ({"kafka.isolation.level": "none"}, "kafka.isolation.level must be one of"),
        ({"kafka.fetch.max.bytes": "much"}, "kafka.fetch.max.bytes must be"),
        ({"startingOffsets": "erliest"}, "startingOffsets must be earliest, latest, committed or JSON"),
        ({"startingOffsets": "times"}, "startingOffsets must be earliest, latest, committed or JSON"),
        ({"startingOffsets": "{"}, "startingOffsets must be JSON"),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "-2 for the earliest"),
        ({"startingOffsets": '{"orders": {"0": true}}'}, "startingOffsets must be JSON"),
        ({"startingOffsets": '{"orders": {"-1": 0}}'}, "startingOffsets must be JSON"),
        ({"startingOffsets": '{"orders": [0]}'}, "startingOffsets must be JSON"),
        ({"startingOffsetsByTimestamp": '{"orders": {"0": -1}}'}, "with milliseconds since the epoch; not "),
        ({"endingOffsets": "committed"}, "endingOffsets cannot be committed"),
        (
            {"startingTimestamp": "2023-11-14T00:00:00Z"},
            "startingTimestamp must be milliseconds since the epoch, such as",
        ),
        ({"endingTimestamp": "-1"}, "endingTimestamp must be milliseconds since the epoch"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "must be error or latest"),
        ({"minPartitions": "0"}, "minPartitions must be a whole number above 0"),
        ({"maxRecordsPerPartition": "many"}, "maxRecordsPerPartition must be a whole number above 0"),
        ({"failOnDataLoss": "no"}, "failOnDataLoss must be true or false"),
        ({"columns": "key,valu"}, "columns: there is no column 'valu'"),
        ({"columns": "key,key"}, "columns: key is named twice"),
        ({"columns": "key", "includeHeaders": "true"}, "contradict each other"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay must be a duration"),
        ({"commitOffsetsToGroup": "a", "kafka.group.id": "b"}, "different groups"),
        ({"subscribe": " , "}, "subscribe must name topics"),
        ({"groupIdPrefix": " "}, "groupIdPrefix must not be empty"),
    ],
)
def test_a_wrong_option_is_reported_with_what_would_be_right(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        read(**options)
    assert said in str(caught.value)


@pytest.mark.parametrize("options", [{"subscribePattern": "("}, {"assign": "{}"}, {"assign": '{"a": [-1]}'}])
def test_a_choice_of_topics_that_makes_no_sense_is_an_error(options: dict[str, str]) -> None:
    with pytest.raises(OptionError, match=next(iter(options))):
        ReadOptions.parse({**SERVERS, **options})


def test_without_servers_it_says_which_option_is_missing() -> None:
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers is missing"):
        ReadOptions.parse({"subscribe": "orders"})


def test_what_begins_with_kafka_goes_to_the_client() -> None:
    options = read(**{"kafka.isolation.level": "read_committed", "kafka.fetch.min.bytes": "10"})
    assert options.client["isolation.level"] == "read_committed"
    assert options.client["fetch.min.bytes"] == "10"
    assert options.servers == "somewhere:9092"


def test_options_of_the_connector_without_a_use_here_are_taken() -> None:
    options = read(groupIdPrefix="mine", **{"fetchOffset.numRetries": "5", "fetchOffset.retryIntervalMs": "10"})
    assert options.client["client.id"] == "mine-kclient"
    assert "group.id" not in options.client


def test_headers_are_a_column_where_they_are_asked_for() -> None:
    assert read().columns == tuple(name for name in COLUMNS if name != "headers")
    assert read(includeHeaders="true").columns == tuple(COLUMNS)
    assert read(columns="timestamptype, VALUE,headers").columns == ("timestampType", "value", "headers")


def test_a_point_in_time_goes_before_times_by_partition_and_these_before_offsets() -> None:
    by_partition = {"startingOffsetsByTimestamp": '{"orders": {"0": 5}}', "startingOffsets": "earliest"}
    starting = read(startingTimestamp="7", **by_partition).starting
    assert starting is not None
    assert (starting.kind, starting.time, starting.option) == (Kind.TIMES, 7, "startingTimestamp")
    starting = read(**by_partition).starting
    assert starting is not None
    assert (starting.kind, starting.values, starting.latest_if_none) == (Kind.TIMES, {"orders": {0: 5}}, False)
    ending = read(endingTimestamp="9").ending
    assert ending is not None
    assert ending.latest_if_none


def test_a_batch_goes_from_the_earliest_to_the_latest_offset() -> None:
    options = read().for_batch()
    assert options.starting is not None
    assert options.ending is not None
    assert (options.starting.kind, options.ending.kind) == (Kind.EARLIEST, Kind.LATEST)


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": "latest"},
        {"startingOffsets": '{"orders": {"0": -1}}'},
        {"endingOffsets": "earliest"},
        {"endingOffsets": '{"orders": {"0": -2}}'},
    ],
)
def test_a_batch_of_which_nothing_would_be_read_is_an_error(options: dict[str, str]) -> None:
    with pytest.raises(OptionError, match="nothing would be read"):
        read(**options).for_batch()


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("90s", 90_000), ("15m", 900_000), ("2 min", 120_000), ("500", 500), ("1h", 3_600_000)]
)
def test_durations_are_written_as_elsewhere_in_spark(text: str, milliseconds: int) -> None:
    assert read(maxTriggerDelay=text).max_trigger_delay_ms == milliseconds


def test_the_group_that_a_stream_commits_to_is_the_one_it_asks_for_committed_offsets() -> None:
    options = read(commitOffsetsToGroup="billing", startingOffsets="committed")
    assert options.client["group.id"] == "billing"


def test_they_travel_to_executors() -> None:
    options = read(startingOffsets='{"orders": {"0": 5}}').for_batch()
    assert pickle.loads(pickle.dumps(options)) == options


def test_writing_takes_what_spark_adds_for_itself() -> None:
    options = WriteOptions.parse({**SERVERS, "topic": "out", "checkpointLocation": "/tmp/x", "queryName": "q"})
    assert (options.topic, options.delivery, options.servers) == ("out", "at_least_once", "somewhere:9092")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"delivery": "once"}, "delivery must be at_least_once or exactly_once"),
        ({"subscribe": "orders"}, "subscribe is an option for reading"),
        ({"topik": "orders"}, "did you mean topic?"),
        ({"kafka.ack": "all"}, "did you mean 'acks'?"),
        ({"kafka.transactional.id": "x"}, "delivery=exactly_once makes the transactions"),
    ],
)
def test_a_wrong_option_of_a_writer_is_reported_with_what_would_be_right(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        WriteOptions.parse({**SERVERS, **options})
    assert said in str(caught.value)
