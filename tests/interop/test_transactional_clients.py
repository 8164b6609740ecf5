"""One transactional id in the hands of several clients in turn: kclient, confluent-kafka, aiokafka, Kafka's own.

On either broker, in both versions of transactions. Each aborts what its predecessor left open and fences it; and what
each commits is there, with the offsets, in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from itertools import pairwise, permutations
from typing import Any

import pytest

from kclient import Admin, Consumer, NewTopic, TopicPartition
from kclient.admin import OffsetSpec
from tests.interop.transactional import CLIENTS, Fenced, Refused, Transactional
from tests.support.raw_transactions import RawTransactions
from tests.support.reading import read_up_to

# Warnings about unclosed resources of other clients are not ours.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

PARTITIONS = 2
TURNS = (
    *("kclient", "confluent", "java", "kclient", "java", "confluent", "aiokafka"),
    *("java", "aiokafka", "confluent", "kclient", "aiokafka", "kclient"),
)
"""Each client takes the id from each other."""


@pytest.fixture(autouse=True)
def _others(needs_kafka: None) -> None:
    for module in ("confluent_kafka", "aiokafka"):
        pytest.importorskip(module, reason=f"{module} is not installed")


@pytest.fixture(params=["refbroker", "kafka"])
def address(request: pytest.FixtureRequest) -> str:
    names = {"refbroker": "refbroker_process", "kafka": "kafka"}
    running: Any = request.getfixturevalue(names[request.param])
    return str(running.bootstrap_servers)


@pytest.fixture(params=[1, 2], ids="version {}".format)
def version(request: pytest.FixtureRequest, address: str) -> Iterator[int]:
    with RawTransactions(address) as raw, raw.at_transaction_version(request.param) as level:
        yield level


def make_topic(address: str, topic: str) -> None:
    with Admin(bootstrap_servers=address) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=PARTITIONS)])


def found(address: str, topic: str) -> list[list[str]]:
    """What is committed, partition by partition; the ends are waited for, so nothing is open."""
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    values: list[list[str]] = [[] for _ in places]
    with Consumer(
        bootstrap_servers=address, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.assign(places)
        with Admin(bootstrap_servers=address) as admin:
            ends = admin.list_offsets(dict.fromkeys(places, OffsetSpec.LATEST))
        for record in read_up_to(consumer, {place: end.offset for place, end in ends.items()}):
            values[record.partition].append((record.value or b"").decode())
    return values


def committed_offset(address: str, group: str, topic: str) -> int | None:
    place = TopicPartition(topic, 0)
    with Admin(bootstrap_servers=address) as admin:
        stored = admin.list_group_offsets({group: [place]}, require_stable=True)[group][place]
    return None if stored is None else stored.offset


def test_every_client_takes_the_id_from_every_other() -> None:
    assert set(pairwise(TURNS)) == set(permutations(CLIENTS, 2))


@pytest.mark.parametrize("client", list(CLIENTS))
@pytest.mark.usefixtures("version")
def test_what_is_committed_is_there_with_its_offsets_and_nothing_else(address: str, topic: str, client: str) -> None:
    make_topic(address, topic)
    with closing(CLIENTS[client](address, topic)) as producer:
        for number in range(6):
            producer.begin()
            for partition in range(PARTITIONS):
                producer.send(topic, partition, str(number))
            producer.offsets(topic, topic, 0, number)
            producer.abort() if number % 3 == 1 else producer.commit()
            # The last one that was committed.
            assert committed_offset(address, topic, topic) == number - (number % 3 == 1)
    assert found(address, topic) == [["0", "2", "3", "5"]] * PARTITIONS


@pytest.mark.usefixtures("version")
def test_each_producer_fences_the_one_before_of_whatever_client(address: str, topic: str) -> None:
    make_topic(address, topic)
    with ExitStack() as stack:
        before: Transactional | None = None
        for turn, client in enumerate(TURNS):
            producer = CLIENTS[client](address, topic)
            stack.callback(producer.close)
            producer.begin()
            producer.send(topic, 0, str(turn))
            if before is not None:
                # In the middle of a transaction of its successor.
                with pytest.raises(Fenced):
                    before.commit()
            producer.send(topic, 1, str(turn))
            producer.offsets(topic, topic, 0, turn)
            producer.commit()
            assert committed_offset(address, topic, topic) == turn
            producer.begin()
            producer.send(topic, turn % PARTITIONS, f"{turn}, never")
            before = producer
        assert before is not None
        before.abort()
    assert found(address, topic) == [[str(turn) for turn in range(len(TURNS))]] * PARTITIONS


@pytest.mark.usefixtures("version")
@pytest.mark.parametrize("client", list(CLIENTS))
def test_one_that_is_fenced_cannot_write_either(address: str, topic: str, client: str) -> None:
    make_topic(address, topic)
    other = "confluent" if client == "kclient" else "kclient"
    with ExitStack() as stack:
        zombie = stack.enter_context(closing(CLIENTS[client](address, topic)))
        zombie.begin()
        zombie.send(topic, 0, "never")
        producer = stack.enter_context(closing(CLIENTS[other](address, topic)))
        producer.begin()
        producer.send(topic, 0, "one")
        with pytest.raises(Refused):
            zombie.send(topic, 0, "nor this")
        with pytest.raises(Fenced):
            zombie.abort()
        producer.commit()
    assert found(address, topic) == [["one"], []]
