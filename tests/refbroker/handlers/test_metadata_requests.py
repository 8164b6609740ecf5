"""Which topics a Metadata request is about, and what stands in the answer for each: by name, by id, twice, neither."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kclient import errors
from kclient.protocol.acls import AclResourceType
from kclient.protocol.messages.metadata import MetadataRequest
from refbroker.handlers.answers import NOT_ASKED
from refbroker.security.authorizer import FULL_ACCESS
from tests.support.broker_harness import Harness

Topic = MetadataRequest.MetadataRequestTopic
NOTHING = UUID(int=0)
UNKNOWN_ID = UUID(int=77)
MISSING = errors.UnknownTopicOrPartitionError.code
INVALID_REQUEST = errors.InvalidRequestError.code


def ask(harness: Harness, *topics: Topic, version: int = 13, create: bool = False) -> Any:
    request = MetadataRequest(
        topics=list(topics), allow_auto_topic_creation=create, include_topic_authorized_operations=version >= 8
    )
    return harness.send(request, version)


async def test_a_topic_that_is_named_twice_is_described_once(harness: Harness) -> None:
    harness.create("t")
    answer = ask(harness, Topic(name="t"), Topic(name="u"), Topic(name="t"), Topic(name="u"))
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("t", 0), ("u", MISSING)]


async def test_an_id_that_is_named_twice_is_described_once(harness: Harness) -> None:
    known = Topic(name=None, topic_id=harness.create("t"))
    unknown = Topic(name=None, topic_id=UNKNOWN_ID)
    answer = ask(harness, known, unknown, known, unknown)
    assert sorted((topic.name or "", topic.error_code) for topic in answer.topics) == [
        ("", errors.UnknownTopicIdError.code),
        ("t", 0),
    ]


async def test_a_name_that_is_no_topic_has_its_operations_too(harness: Harness) -> None:
    answer = ask(harness, Topic(name="missing"), Topic(name="not a name"))
    assert [(topic.error_code, topic.topic_authorized_operations) for topic in answer.topics] == [
        (MISSING, FULL_ACCESS.operations(AclResourceType.TOPIC)),
        (errors.InvalidTopicError.code, FULL_ACCESS.operations(AclResourceType.TOPIC)),
    ]


async def test_an_unknown_id_has_no_operations(harness: Harness) -> None:
    (unknown,) = ask(harness, Topic(name=None, topic_id=UNKNOWN_ID)).topics
    assert unknown.topic_authorized_operations == NOT_ASKED


async def test_where_there_are_ids_names_do_not_count(harness: Harness) -> None:
    topic_id = harness.create("t")
    harness.create("u")
    answer = ask(harness, Topic(name="u", topic_id=topic_id), Topic(name="u"), Topic(name="new"), create=True)
    assert [topic.name for topic in answer.topics] == ["t"]
    assert sorted(harness.broker.metadata.image.topics) == ["t", "u"]
    (unknown,) = ask(harness, Topic(name="t", topic_id=UNKNOWN_ID)).topics
    assert (unknown.name, unknown.topic_id, unknown.error_code) == (None, UNKNOWN_ID, errors.UnknownTopicIdError.code)


@pytest.mark.parametrize("version", [10, 11])
async def test_ids_and_topics_without_a_name_are_refused_before_version_12(harness: Harness, version: int) -> None:
    topic_id = harness.create("t")
    for odd in (Topic(name="t", topic_id=topic_id), Topic(name=None, topic_id=topic_id), Topic(name=None)):
        answer = ask(harness, odd, Topic(name="t"), version=version)
        assert [(topic.name, topic.topic_id, topic.error_code) for topic in answer.topics] == [
            (odd.name or "", odd.topic_id, INVALID_REQUEST),
            ("t", NOTHING, INVALID_REQUEST),
        ]
        assert all(topic.topic_authorized_operations == NOT_ASKED and not topic.partitions for topic in answer.topics)


@pytest.mark.parametrize("version", [12, 13])
async def test_neither_a_name_nor_an_id_is_refused(harness: Harness, version: int) -> None:
    harness.create("t")
    answer = ask(harness, Topic(name=None), Topic(name="t"), version=version)
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [
        ("", INVALID_REQUEST),
        ("t", INVALID_REQUEST),
    ]
    assert answer.error_code == (INVALID_REQUEST if version >= 13 else 0)
