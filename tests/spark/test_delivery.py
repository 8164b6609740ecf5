"""Rows of a task on their way to Kafka, without Spark: delivered when `write` returns, or one short error."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kclient import Admin, NewTopic
from kclient.spark import delivery as module
from kclient.spark import producers
from kclient.spark.delivery import AtLeastOnce, check_topic, choose_delivery
from kclient.spark.errors import OptionError, SourceError
from kclient.spark.options import WriteOptions
from kclient.spark.producers import ProducerCache
from kclient.spark.record_columns import RecordColumns
from kclient.types import ConsumerRecord
from refbroker.testing import RefBroker

pyarrow = pytest.importorskip("pyarrow")

TYPES = {"key": "binary", "value": "string", "partition": "int", "headers": "array<struct<key:string,value:binary>>"}


@pytest.fixture(autouse=True)
def no_producers() -> Iterator[None]:
    yield
    producers.close_all()


def delivery(servers: str, topic: str | None, *columns: str, **client: object) -> AtLeastOnce:
    options = WriteOptions.parse(
        {
            "kafka.bootstrap.servers": servers,
            **({"topic": topic} if topic else {}),
            **{"kafka." + name.replace("_", "."): str(value) for name, value in client.items()},
        }
    )
    every = {name: TYPES.get(name, "string") for name in ("value", *columns)}
    made = choose_delivery(options, RecordColumns.choose(every, topic))
    assert isinstance(made, AtLeastOnce)
    again: AtLeastOnce = pickle.loads(pickle.dumps(made))
    return again


def batch(start: int, count: int, **columns: Any) -> Any:
    return pyarrow.record_batch(
        {"value": pyarrow.array([f"{n}" for n in range(start, start + count)]), "offset": [0] * count, **columns}
    )


def test_what_is_written_is_there(
    bootstrap_servers: str, make_topic: Callable[..., str], consumed: Callable[..., list[ConsumerRecord]]
) -> None:
    topic = make_topic(2)
    one = delivery(bootstrap_servers, topic, "key", "partition")
    rest = {
        "key": pyarrow.array([b"k", None] * 500, pyarrow.binary()),
        "partition": pyarrow.array([0, 1] * 500, pyarrow.int32()),
    }
    assert one.write(iter([batch(0, 1000, **rest), batch(1000, 1000, **rest)])) == 2000
    found = [(record.partition, record.key, record.value) for record in consumed(topic)]
    assert found == [(n, None if n else b"k", b"%d" % value) for n in range(2) for value in range(n, 2000, 2)]


def test_a_topic_that_does_not_exist_is_reported_before_rows_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    # That the brokers have no such topic has to be known by then.
    monkeypatch.setattr(module, "CREATED_WITHIN", 1.5)
    with RefBroker(auto_create_topics_enable=False) as kafka:
        servers = kafka.bootstrap_servers
        kafka.create_topic("other")
        with producers.borrow(delivery(servers, "orders").options) as connected:
            connected.partitions_for("other")
        with pytest.raises(SourceError, match=f"there is no topic 'orders' on {servers}"):
            check_topic(delivery(servers, "orders").options)
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic("orders", num_partitions=1)])
        check_topic(delivery(servers, "orders").options)
        check_topic(delivery(servers, None, "topic").options)


def test_a_topic_that_the_brokers_create_is_there_in_time(bootstrap_servers: str, topic: str) -> None:
    check_topic(delivery(bootstrap_servers, topic).options)


def test_whether_a_topic_exists_is_left_to_the_tasks_while_kafka_is_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CREATED_WITHIN", 0.1)
    check_topic(delivery("127.0.0.1:1", "orders").options)


def test_a_task_without_rows_writes_nothing(bootstrap_servers: str, topic: str) -> None:
    assert delivery(bootstrap_servers, topic).write(iter([])) == 0


def test_each_row_goes_to_the_topic_of_its_column(
    bootstrap_servers: str, make_topic: Callable[..., str], consumed: Callable[..., list[ConsumerRecord]]
) -> None:
    topic = make_topic()
    one = delivery(bootstrap_servers, None, "topic")
    one.write(iter([batch(0, 4, topic=pyarrow.array([topic, f"{topic}-2"] * 2))]))
    assert [record.value for record in consumed(topic)] == [b"0", b"2"]
    assert [record.value for record in consumed(f"{topic}-2")] == [b"1", b"3"]
    with pytest.raises(SourceError, match="the topic of a row is null: fill the column topic, or set the option topic"):
        one.write(iter([batch(0, 2, topic=pyarrow.array([topic, None]))]))


def test_tasks_of_a_process_share_a_producer_until_one_fails(bootstrap_servers: str, topic: str) -> None:
    made = []

    def make(options: WriteOptions) -> Any:
        made.append(producers.open_producer(options))
        return made[-1]

    cache = ProducerCache(make)
    options = delivery(bootstrap_servers, topic).options
    for _ in range(3):
        with cache.borrow(options) as producer, cache.borrow(options) as same:
            assert producer is same
    assert len(made) == 1
    with pytest.raises(ValueError, match="of the task"), cache.borrow(options):
        raise ValueError("of the task")
    assert repr(made[0]).endswith("closed>")
    with cache.borrow(options):
        pass
    assert len(made) == 2
    others = [delivery(bootstrap_servers, topic, linger_ms=n).options for n in range(producers.MOST)]
    for other in others:
        with cache.borrow(other):
            pass
    assert [repr(one).endswith("closed>") for one in made] == [True, True, *[False] * producers.MOST]
    cache.close()
    assert all(repr(one).endswith("closed>") for one in made)


def test_rows_that_were_not_delivered_are_one_short_error(
    bootstrap_servers: str, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(max_message_bytes="1000")
    one = delivery(bootstrap_servers, topic)
    large = pyarrow.record_batch({"value": pyarrow.array(["x" * 2000, "small", "x" * 3000])})
    with pytest.raises(SourceError, match="2 of 3 rows were not delivered: ") as raised:
        one.write(iter([large]))
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__
    # The next attempt has a producer of its own, which knows nothing of that.
    assert one.write(iter([batch(0, 10)])) == 10


@pytest.mark.parametrize(
    ("rows", "columns", "client", "message"),
    [
        ({"partition": pyarrow.array([0, -1], pyarrow.int32())}, ["partition"], {}, "row 1: the partition must be 0"),
        ({"partition": pyarrow.array([0, 7], pyarrow.int32())}, ["partition"], {}, "there is no partition .*-7 on"),
        (
            {},
            [],
            {"max_request_size": 97},
            r"^a row cannot be a record: row 0 takes 98 bytes, .* more than kafka\.max\.request\.size \(97\)$",
        ),
        (
            {"headers": pyarrow.array([[{"key": None, "value": b"x"}]] * 2)},
            ["headers"],
            {},
            "row 0: a header has no key",
        ),
    ],
    ids=["negative partition", "no such partition", "too large", "header without key"],
)
def test_a_row_that_cannot_be_sent_is_one_short_error(
    bootstrap_servers: str,
    make_topic: Callable[..., str],
    rows: dict[str, Any],
    columns: list[str],
    client: dict[str, object],
    message: str,
) -> None:
    with pytest.raises(SourceError, match=message):
        delivery(bootstrap_servers, make_topic(), *columns, **client).write(iter([batch(0, 2, **rows)]))


def test_a_broker_that_is_not_there_is_named() -> None:
    with pytest.raises(
        SourceError, match=r"Kafka on 127.0.0.1:1 did not answer: .* within kafka\.max\.block\.ms \(200\)"
    ):
        delivery("127.0.0.1:1", "t", max_block_ms=200).write(iter([batch(0, 1)]))


def test_a_way_to_deliver_that_lacks_something_is_an_option_error(bootstrap_servers: str) -> None:
    options = WriteOptions.parse({"kafka.bootstrap.servers": bootstrap_servers, "delivery": "at_least_once"})
    columns = RecordColumns.choose({"value": "string"}, "t")
    assert isinstance(choose_delivery(options, columns), AtLeastOnce)
    with pytest.raises(OptionError, match="decisionTopic, which names an existing topic"):
        choose_delivery(
            WriteOptions.parse({"kafka.bootstrap.servers": bootstrap_servers, "delivery": "exactly_once"}), columns
        )
