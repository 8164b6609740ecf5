"""Faults: which requests they are for, what an error answer looks like, what happens to a request they strike."""

from __future__ import annotations

import asyncio
import random
import threading
from typing import Any
from uuid import UUID

import pytest

from kclient import errors
from kclient.errors import ConfigError
from kclient.protocol import API_NAMES, Message, Struct, request_type
from kclient.protocol.fields import fields_of
from kclient.protocol.frames import encode_request
from kclient.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kclient.protocol.messages.fetch import FetchRequest
from kclient.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kclient.protocol.messages.metadata import MetadataRequest
from kclient.protocol.messages.produce import ProduceRequest
from kclient.records import read_batches
from refbroker.handlers.error_answers import has_codes, has_codes_of_topics, merge, outline, places_of, put_code
from refbroker.handlers.naming import PARTITION_FIELDS, Covers, named, select
from refbroker.handlers.registry import APIS
from refbroker.server.dispatch import PendingResponse
from refbroker.testing.faults import Faults, Rule
from refbroker.testing.faults.injection import Exchange
from tests.support.broker_harness import Harness, batch, produce_request
from tests.support.typed import must

CODE = errors.NotLeaderOrFollowerError.code
assert CODE is not None

IDS = {UUID(int=1): "orders", UUID(int=2): "bills"}
REQUESTS = {name: request_type(key) for key, name in API_NAMES.items()}


def sample(kind: type[Struct], version: int, topic: UUID) -> Any:
    """A struct with something in every field that says what it is about: the topic, and partition 3 of it."""
    value = kind()
    for field in fields_of(kind):
        if version not in field.versions:
            continue
        wire = field.type
        if wire.name == "array":
            assert wire.element is not None
            element = wire.element
            if element.struct is not None and "Topic" in element.struct.__name__:
                made: list[Any] = [sample(element.struct, version, each) for each in IDS]
            elif element.struct is not None:
                made = [sample(element.struct, version, topic)]
            else:
                values: dict[str, list[Any]] = {"string": [f"{field.name} 0"], "int32": [3]}
                made = values.get(element.name, [])
                if field.name.endswith("topic_names"):
                    made = list(IDS.values())
            setattr(value, field.name, made)
        elif wire.name == "string":
            setattr(value, field.name, IDS[topic] if field.name in ("topic", "topic_name", "name") else field.name)
        elif field.name in PARTITION_FIELDS and wire.name == "int32":
            setattr(value, field.name, 3)
        elif wire.name == "int8" and "Acl" in kind.__name__:
            # Kafka closes the connection for UNKNOWN, which is 0.
            setattr(value, field.name, 1)
        elif field.name == "topic_id":
            setattr(value, field.name, topic)
    return value


MEANS: dict[str, Covers] = {
    "orders": lambda topic, partition: topic == "orders",
    "bills": lambda topic, partition: topic == "bills",
}


def codes(value: Struct) -> list[int]:
    """All error codes of a response."""
    found = []
    for field in fields_of(type(value)):
        inner = getattr(value, field.name)
        if field.name in ("error_code", "partition_error_code"):
            found.append(inner)
        elif isinstance(inner, list):
            found += [code for one in inner if isinstance(one, Struct) for code in codes(one)]
    return found


def test_the_sample_is_of_every_api_that_is_registered() -> None:
    assert {API_NAMES[key] for key in APIS} < REQUESTS.keys()


@pytest.mark.parametrize("api", sorted(REQUESTS))
def test_every_api_in_every_version_has_an_error_answer(api: str) -> None:
    kind = REQUESTS[api]
    for version in range(kind.min_version, kind.max_version + 1):
        request = sample(kind, version, UUID(int=1))
        answer = outline(request, version)
        places = put_code(answer, version, CODE, "what happened")
        decoded = kind.response_type.decode(answer.encode(version), version)
        assert [code for code in codes(decoded) if code] == [CODE] * places
        assert places or not has_codes(kind.response_type, version) or (api, version) in NOWHERE
        if has_codes_of_topics(kind.response_type, version) and api not in OTHER_SUBJECTS:
            assert set(named(decoded, IDS.get)) == set(named(request, IDS.get))


NOWHERE = {("DescribeLogDirs", 1), ("DescribeLogDirs", 2)}
"""The codes are those of directories, which the request does not name."""
OTHER_SUBJECTS = {"DeleteAcls", "DescribeConfigs", "AlterConfigs", "IncrementalAlterConfigs"}
"""Their answers may name topics, but the samples are not about topics."""


def test_error_answers_look_as_kafkas_do() -> None:
    produce = outline(produce_request("orders", b"", partition=2), 9)
    put_code(produce, 9, 7, "too slow")
    assert repr(produce) == (
        "ProduceResponse(responses=[ProduceResponse.TopicProduceResponse(name='orders', partition_responses=["
        "ProduceResponse.PartitionProduceResponse(index=2, error_code=7, base_offset=-1, error_message='too slow')])])"
    )
    find = sample(REQUESTS["FindCoordinator"], 4, UUID(int=1))
    found: Any = outline(find, 4)
    put_code(found, 4, 15, None)
    assert [(one.key, one.node_id, one.error_code) for one in found.coordinators] == [("coordinator_keys 0", -1, 15)]
    joined: Any = outline(sample(REQUESTS["JoinGroup"], 9, UUID(int=1)), 9)
    put_code(joined, 9, 27, None)
    assert (joined.error_code, joined.members) == (27, [])


@pytest.mark.parametrize("api", sorted(REQUESTS))
def test_topics_can_be_distinguished_in_every_request_that_names_them(api: str) -> None:
    kind = REQUESTS[api]
    for version in {kind.min_version, kind.max_version}:
        request = sample(kind, version, UUID(int=1))
        before = set(named(request, IDS.get))
        if not {topic for topic, _ in before} >= {"orders", "bills"}:
            continue
        select(request, lambda topic, partition: topic != "orders", IDS.get)
        assert set(named(request, IDS.get)) == {subject for subject in before if subject[0] != "orders"}
        answer = outline(request, version)
        assert {topic for topic, _ in named(answer, IDS.get)} <= {"bills"}


@pytest.mark.parametrize("api", sorted(REQUESTS))
def test_errors_of_a_topic_and_the_answer_to_the_rest_make_a_whole_answer(api: str) -> None:
    kind = REQUESTS[api]
    for version in range(kind.min_version, kind.max_version + 1):
        request = sample(kind, version, UUID(int=1))
        subjects = set(named(request, IDS.get))
        if not has_codes_of_topics(kind.response_type, version) or len({topic for topic, _ in subjects}) < 2:
            continue
        failed = outline(request, version)
        select(failed, MEANS["orders"], IDS.get)
        put_code(failed, version, CODE, None, topics_only=True)
        select(request, MEANS["bills"], IDS.get)
        answer = outline(request, version)
        merge(answer, failed)
        assert set(named(answer, IDS.get)) == subjects
        said = {
            topic: {code for items, index in places_of(answer, version, means, IDS.get) for code in codes(items[index])}
            for topic, means in MEANS.items()
        }
        assert said == {"orders": {CODE}, "bills": {0}}


async def test_a_topic_is_distinguished_from_other_config_resources(harness: Harness) -> None:
    harness.create("orders")
    fault = harness.faults.fail("IncrementalAlterConfigs", "POLICY_VIOLATION", topic="orders")
    config = IncrementalAlterConfigsRequest.AlterableConfig
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    request = IncrementalAlterConfigsRequest(
        resources=[
            resource(resource_type=2, resource_name="orders", configs=[config(name="retention.ms", value="1")]),
            resource(resource_type=4, resource_name="1", configs=[config(name="log.retention.ms", value="2")]),
        ]
    )
    answer = await ask(harness, request, 1)
    found = {one.resource_name: one.error_code for one in answer.responses}
    assert (found["orders"], fault.fired) == (44, 1)
    assert harness.broker.metadata.image.config(2, "orders") == {}


# Rules


def test_what_cannot_be_is_refused_with_the_reason() -> None:
    faults = Faults()
    for ask, says in (
        (lambda: faults.fail("Prodce", "NOT_LEADER_OR_FOLLOWER"), "no API 'Prodce'; did you mean Produce?"),
        (lambda: faults.fail("Produce", "NOT_LEADER"), "did you mean NOT_LEADER_OR_FOLLOWER?"),
        (lambda: faults.fail(999, 3), "no API with key 999"),
        (lambda: faults.fail("Produce", 0), "error other than NONE"),
        (lambda: faults.fail("Produce", errors.ProtocolError), "an error of clients"),
        (lambda: faults.cut("Produce", count=0), "count must be at least 1"),
        (lambda: faults.delay("Produce", -1), "seconds must be a finite number"),
        (lambda: faults.delay("Produce", float("inf")), "seconds must be a finite number"),
        (lambda: faults.drop("Heartbeat", topic="orders"), "requests of Heartbeat name no topics"),
        (lambda: faults.drop("Produce", topic=""), "topic must not be empty"),
        (lambda: faults.corrupt("Metadata"), "has no records to corrupt"),
        (lambda: faults.cut("Produce", version=99), "versions 3 to 13, not 99"),
        (lambda: faults.cut("Produce", topics="orders"), "has no topics; it has action, api, "),  # type: ignore[call-arg]
        (lambda: faults.cut("Produce", when="during"), "must be one of before, after"),  # type: ignore[arg-type]
        (lambda: faults.add(Rule.make("truncate", "Fetch", when="before")), "only be damaged after"),
        (lambda: Rule.from_json({"api": "Fetch"}), "needs an action"),
        (lambda: Rule.from_json({"action": "cut", "api": None}), "needs an api"),
        (lambda: Rule.from_json({"action": "cut", "api": "Fetch", "times": 1}), "has no times"),
        (lambda: Rule.from_json({"action": "cut", "api": "Fetch", "count": "1"}), "count must be int, not '1'"),
    ):
        with pytest.raises(ConfigError, match=says.replace("?", r"\?")):
            ask()
    assert faults.list() == []


def test_a_rule_is_the_same_after_its_way_through_json() -> None:
    rules = [
        Rule.make("fail", "Produce", error=errors.CorruptRecordError, topic="t", partition=1, count=None),
        Rule.make("fail", 0, error=1234, message="text", client_id="c", version=9),
        Rule.make("delay", "*", seconds=0.5, when="after"),
        Rule.make("corrupt", "Fetch"),
        Rule.make("corrupt", "Produce"),
        Rule.make("truncate", "Metadata", count=3),
    ]
    assert [Rule.from_json(rule.as_json()) for rule in rules] == rules


def test_an_error_can_be_given_by_name_number_class_or_instance() -> None:
    by_name = Rule.make("fail", "Produce", error="NOT_LEADER_OR_FOLLOWER")
    assert by_name == Rule.make("fail", "Produce", error=6)
    assert by_name == Rule.make("fail", "Produce", error=errors.NotLeaderOrFollowerError)
    own = Rule.make("fail", "Produce", error=errors.NotLeaderOrFollowerError("moved"))
    assert (own.error, own.message) == (6, "moved")


# Counting


def test_a_fault_is_for_so_many_requests_and_then_spent() -> None:
    faults = Faults()
    fault = faults.add(Rule.make("cut", "Produce", count=2))
    assert [fault.count_request() for _ in range(3)] == [True, True, False]
    assert (fault.fired, faults.rules, faults.list()) == (2, (), [fault])
    fault.remove()
    fault.remove()
    assert (fault.fired, faults.list()) == (2, [])


def test_a_fault_shows_what_it_is_and_how_often_it_was_applied() -> None:
    fault = Faults().fail("Produce", "NOT_LEADER_OR_FOLLOWER", topic="t")
    shown = "<fault action=fail, api=Produce, when=before, count=1, error=NOT_LEADER_OR_FOLLOWER, topic=t, fired=0>"
    assert repr(fault) == shown


def test_a_fault_without_a_count_strikes_until_it_is_removed() -> None:
    faults = Faults()
    with faults.add(Rule.make("cut", "Produce", count=None)) as fault:
        assert all(fault.count_request() for _ in range(100))
    assert not fault.count_request()
    assert fault.fired == 100


def test_waiting_ends_when_the_fault_was_applied_and_says_how_far_it_was_when_not() -> None:
    faults = Faults()
    fault = faults.add(Rule.make("cut", "Produce", count=None))
    waiting = threading.Thread(target=fault.wait, args=(2, 20))
    waiting.start()
    fault.count_request()
    with pytest.raises(TimeoutError, match="was applied to 1 of 2 requests in 0 s"):
        fault.wait(2, timeout=0)
    fault.count_request()
    waiting.join(20)
    assert not waiting.is_alive()


# Requests that faults strike


async def ask(harness: Harness, request: Message, version: int) -> Any:
    answer = harness.send(request, version)
    return await answer if isinstance(answer, asyncio.Future) else answer


def results(answer: Any) -> dict[tuple[str, int], int]:
    return {(topic.name, one.index): one.error_code for topic in answer.responses for one in topic.partition_responses}


def produce_to(*subjects: tuple[str, int], acks: int = -1) -> ProduceRequest:
    topics: dict[str, list[ProduceRequest.PartitionProduceData]] = {}
    for topic, partition in subjects:
        data = ProduceRequest.PartitionProduceData(index=partition, records=batch(b"v"))
        topics.setdefault(topic, []).append(data)
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[ProduceRequest.TopicProduceData(name=name, partition_data=data) for name, data in topics.items()],
    )


def stored(harness: Harness, topic: str, partition: int = 0) -> int:
    return harness.broker.partitions.find(topic, partition).log.log_end_offset


async def test_other_partitions_of_the_same_request_go_through_untouched(harness: Harness) -> None:
    harness.create("orders", 2)
    harness.create("bills")
    faults = harness.faults
    everything = (("orders", 0), ("orders", 1), ("bills", 0))
    one = faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", topic="orders", partition=1)
    answer = await ask(harness, produce_to(*everything), 9)
    assert results(answer) == {("orders", 0): 0, ("orders", 1): 6, ("bills", 0): 0}
    both = faults.fail("Produce", "CORRUPT_MESSAGE", topic="orders")
    other = faults.fail("Produce", 7, topic="bills", count=None)
    answer = await ask(harness, produce_to(*everything), 9)
    assert results(answer) == {("orders", 0): 2, ("orders", 1): 2, ("bills", 0): 7}
    assert [fault.fired for fault in (one, both, other)] == [1, 1, 1]
    assert [stored(harness, *subject) for subject in everything] == [1, 0, 1]


async def test_an_error_after_the_effect_only_says_so(harness: Harness) -> None:
    harness.create("orders", 2)
    faults = harness.faults
    faults.fail("Produce", "REQUEST_TIMED_OUT", when="after", topic="orders", partition=0)
    answer = await ask(harness, produce_to(("orders", 0), ("orders", 1)), 9)
    assert results(answer) == {("orders", 0): 7, ("orders", 1): 0}
    faults.fail("Produce", "REQUEST_TIMED_OUT", when="after")
    answer = await ask(harness, produce_to(("orders", 0), ("orders", 1)), 9)
    assert results(answer) == {("orders", 0): 7, ("orders", 1): 7}
    assert [stored(harness, "orders", number) for number in (0, 1)] == [2, 2]


async def test_requests_that_do_not_match_are_left_alone(harness: Harness) -> None:
    harness.create("orders")
    faults = harness.faults
    others = [
        faults.fail("Fetch", 6),
        faults.fail("Produce", 6, topic="bills"),
        faults.fail("Produce", 6, partition=1),
        faults.fail("Produce", 6, client_id="somebody"),
        faults.fail("Produce", 6, version=8),
    ]
    assert results(await ask(harness, produce_to(("orders", 0)), 9)) == {("orders", 0): 0}
    assert [fault.fired for fault in others] == [0] * 5
    mine = faults.fail("*", 6, client_id="harness", version=9, topic="orders")
    assert results(await ask(harness, produce_to(("orders", 0)), 9)) == {("orders", 0): 6}
    assert mine.fired == 1


async def test_topics_are_known_by_their_ids_too(harness: Harness) -> None:
    topic_id = harness.create("orders")
    fault = harness.faults.fail("Produce", 6, topic="orders")
    data = ProduceRequest.PartitionProduceData(index=0, records=batch(b"v"))
    topic = ProduceRequest.TopicProduceData(topic_id=topic_id, partition_data=[data])
    answer = await ask(harness, ProduceRequest(acks=-1, topic_data=[topic]), 13)
    assert answer.responses[0].topic_id == topic_id
    assert (answer.responses[0].partition_responses[0].error_code, fault.fired) == (6, 1)


async def test_metadata_keeps_its_brokers_and_creates_no_topic_that_is_to_fail(harness: Harness) -> None:
    harness.create("bills")
    faults = harness.faults
    names = [MetadataRequest.MetadataRequestTopic(name=name) for name in ("orders", "bills")]
    faults.fail("Metadata", "LEADER_NOT_AVAILABLE", topic="orders")
    answer = await ask(harness, MetadataRequest(topics=names), 12)
    assert {topic.name: (topic.error_code, len(topic.partitions)) for topic in answer.topics} == {
        "orders": (5, 0),
        "bills": (0, 1),
    }
    assert len(answer.brokers) == 1
    faults.fail("Metadata", "LEADER_NOT_AVAILABLE", topic="orders")
    answer = await ask(harness, MetadataRequest(topics=names[:1]), 12)
    assert ([topic.error_code for topic in answer.topics], len(answer.brokers)) == ([5], 1)
    assert "orders" not in harness.broker.metadata.image.topics
    faults.fail("Metadata", "LEADER_NOT_AVAILABLE", topic="orders")
    names[1].name = "new"
    answer = await ask(harness, MetadataRequest(topics=names), 12)
    assert {topic.name: topic.error_code for topic in answer.topics} == {"orders": 5, "new": 3}  # made by now
    assert set(harness.broker.metadata.image.topics) == {"bills", "new"}
    everything = faults.fail("Metadata", 5, topic="bills", partition=0)
    answer = await ask(harness, MetadataRequest(topics=None), 12)
    (bills,) = (topic for topic in answer.topics if topic.name == "bills")
    assert (bills.error_code, bills.partitions[0].error_code, everything.fired) == (0, 5, 1)
    faults.fail("Metadata", "REBOOTSTRAP_REQUIRED")
    assert (await ask(harness, MetadataRequest(topics=[]), 13)).error_code == 129


def fetch_request(session_id: int = 0, epoch: int = 0, *partitions: int, wait_ms: int = 0) -> FetchRequest:
    wanted = [FetchRequest.FetchPartition(partition=number, partition_max_bytes=1 << 20) for number in partitions]
    topics = [FetchRequest.FetchTopic(topic="orders", partitions=wanted)] if wanted else []
    return FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, session_id=session_id, session_epoch=epoch, topics=topics
    )


def fetched(answer: Any) -> dict[int, tuple[int, int]]:
    return {
        one.partition_index: (one.error_code, sum(1 for part in read_batches(one.records) for _ in part.records()))
        for topic in answer.responses
        for one in topic.partitions
    }


async def test_a_fetch_session_gets_an_error_of_a_partition_it_does_not_name(harness: Harness) -> None:
    harness.create("orders", 2)
    harness.produce("orders", b"v", partition=1)
    first = await ask(harness, fetch_request(0, 0, 0, 1), 11)
    assert fetched(first) == {0: (0, 0), 1: (0, 1)}
    fault = harness.faults.fail("Fetch", 6, topic="orders", partition=0, count=2)
    # Nothing is named: the session knows. An error does not wait for records.
    answer = await asyncio.wait_for(ask(harness, fetch_request(first.session_id, 1, wait_ms=60_000), 11), 10)
    assert (answer.session_id, fetched(answer)) == (first.session_id, {0: (6, 0), 1: (0, 1)})
    answer = await ask(harness, fetch_request(first.session_id, 2), 11)
    assert (fetched(answer)[0], fault.fired) == ((6, 0), 2)
    # The partition comes back with the next answer, though nothing in it has changed.
    answer = await ask(harness, fetch_request(first.session_id, 3), 11)
    assert fetched(answer)[0] == (0, 0)


async def test_an_error_of_a_whole_fetch_leaves_its_session_where_it_was(harness: Harness) -> None:
    harness.create("orders")
    first = await ask(harness, fetch_request(0, 0, 0), 11)
    harness.faults.fail("Fetch", "FETCH_SESSION_ID_NOT_FOUND")
    answer = await ask(harness, fetch_request(first.session_id, 1), 11)
    assert (answer.error_code, answer.responses) == (70, [])
    assert (await ask(harness, fetch_request(first.session_id, 1), 11)).error_code == 0


async def test_an_unsupported_version_is_reported_in_the_oldest_form(harness: Harness) -> None:
    harness.faults.fail("ApiVersions", "UNSUPPORTED_VERSION")
    request = ApiVersionsRequest(client_software_name="n", client_software_version="1")
    frame = b"".join(encode_request(request, 4, 7, "c"))
    _, waiting = harness.dispatcher.handle(harness.connection, memoryview(frame)[4:])
    assert isinstance(waiting, PendingResponse)
    await asyncio.wait([waiting.future])
    answer = ApiVersionsResponse.decode(b"".join(must(waiting.encode()))[8:], 0)
    assert (answer.error_code, [one.api_key for one in answer.api_keys]) == (35, [18])


async def test_a_flipped_bit_is_noticed_by_the_checksum_alone(harness: Harness) -> None:
    harness.create("orders")
    faults = harness.faults
    empty = faults.corrupt("Fetch", topic="orders")
    assert fetched(await ask(harness, fetch_request(0, -1, 0), 11)) == {0: (0, 0)}
    assert empty.fired == 0
    faults.corrupt("Produce")
    assert results(await ask(harness, produce_to(("orders", 0)), 9)) == {("orders", 0): 2}
    assert results(await ask(harness, produce_to(("orders", 0)), 9)) == {("orders", 0): 0}
    answer = await ask(harness, fetch_request(0, -1, 0), 11)
    assert empty.fired == 1
    with pytest.raises(errors.CorruptRecordError, match="checksum"):
        fetched(answer)


async def test_a_delay_ends_when_its_fault_is_removed(harness: Harness) -> None:
    harness.create("orders")
    fault = harness.faults.delay("Produce")
    after = harness.faults.delay("Produce", 0.0, when="after")
    answer = asyncio.ensure_future(ask(harness, produce_to(("orders", 0)), 9))
    await asyncio.to_thread(fault.wait)
    assert stored(harness, "orders") == 0
    await asyncio.to_thread(fault.remove)
    assert results(await answer) == {("orders", 0): 0}
    assert (stored(harness, "orders"), after.fired) == (1, 1)


async def test_faults_apply_in_order_until_one_ends_the_exchange(harness: Harness) -> None:
    harness.create("orders")
    faults = harness.faults
    delay = faults.delay("Produce", 0.0)
    error = faults.fail("Produce", 6)
    behind = [faults.delay("Produce", 0.0), faults.fail("Produce", 7), faults.delay("Produce", 0.0, when="after")]
    assert results(await ask(harness, produce_to(("orders", 0)), 9)) == {("orders", 0): 6}
    assert (delay.fired, error.fired, [fault.fired for fault in behind]) == (1, 1, [0, 0, 0])


async def test_without_rules_nothing_of_faults_is_made(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.create("orders")
    monkeypatch.setattr(Exchange, "__init__", None)
    spent = harness.faults.fail("Heartbeat", 15)
    assert not isinstance(harness.send(produce_to(("orders", 0)), 9), asyncio.Future)
    spent.remove()
    assert harness.faults.rules == ()


async def test_whatever_is_to_fail_every_request_is_answered(harness: Harness, rng: random.Random) -> None:
    harness.create("orders", 4)
    harness.create("bills", 4)
    faults = harness.faults
    fired = 0
    for _ in range(300):
        key = rng.choice(sorted(APIS))
        api = APIS[key]
        kind = request_type(key)
        faults.clear()
        matching: dict[str, Any] = {"count": rng.choice([1, 2, None])}
        name = rng.choice([API_NAMES[key], "*"])
        if list(named(sample(kind, api.last, UUID(int=1)), IDS.get)):
            matching |= rng.choice([{}, {"topic": "orders"}, {"topic": "orders", "partition": 3}])
        when = rng.choice(["before", "after"])
        fault = faults.fail(name, rng.choice([3, 6, 29, -1]), when=when, **matching)  # type: ignore[arg-type]
        version = rng.randint(max(api.first, kind.min_version), api.last)
        request = sample(kind, version, UUID(int=1))
        if isinstance(request, ProduceRequest):
            request.acks = -1
        assert await ask(harness, request, version) is not None
        fired += fault.fired
    assert fired > 100
