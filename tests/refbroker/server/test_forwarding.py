"""Requests that a broker under another controller forwards: what the client gets, and what stays here."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kclient.errors import KafkaError, RequestTimedOutError, UnsupportedVersionError
from kclient.protocol import Message
from kclient.protocol.frames import decode_request_header, encode_response
from kclient.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kclient.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from kclient.protocol.messages.metadata import MetadataRequest
from refbroker.peers.forwarding import Forwarder
from refbroker.server.dispatch import Dispatcher
from refbroker.testing.faults.injection import FaultInjection
from tests.support.broker_harness import Harness

CREATE = CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1)])


class Controller:
    """A controller on another node, which answers an Envelope by a script."""

    def __init__(self) -> None:
        self.asked: list[Message] = []
        self.outcome: EnvelopeResponse | KafkaError | None = None

    def ask(self, request: Message) -> asyncio.Future[Any]:
        self.asked.append(request)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if isinstance(self.outcome, KafkaError):
            future.set_exception(self.outcome)
        else:
            future.set_result(self.outcome or self._created(request))
        return future

    def _created(self, request: Message) -> EnvelopeResponse:
        assert isinstance(request, EnvelopeRequest)
        header, _ = decode_request_header(request.request_data)
        result = CreateTopicsResponse.CreatableTopicResult(name="t", num_partitions=5)
        answer = encode_response(CreateTopicsResponse(topics=[result]), 7, header.correlation_id)
        return EnvelopeResponse(response_data=b"".join(answer)[4:])


class Member:
    """The parts of a broker, with a forwarder."""

    def __init__(self, parts: Any, forwarder: Forwarder) -> None:
        self._parts = parts
        self.forwarder = forwarder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parts, name)


@pytest.fixture
def controller(harness: Harness) -> Controller:
    controller = Controller()
    member: Any = Member(harness.broker, Forwarder(controller))
    harness.dispatcher = Dispatcher(member, FaultInjection(harness.faults))
    harness.connection.peer = "10.0.0.1:5000"
    return controller


async def test_the_client_gets_the_response_of_the_controller(harness: Harness, controller: Controller) -> None:
    answer = await harness.send(CREATE, 7)
    assert [(topic.name, topic.num_partitions) for topic in answer.topics] == [("t", 5)]
    [envelope] = controller.asked
    assert isinstance(envelope, EnvelopeRequest)
    assert envelope.client_host_address == bytes([10, 0, 0, 1])
    assert not harness.broker.image.topics


async def test_other_requests_are_not_forwarded(harness: Harness, controller: Controller) -> None:
    assert harness.send(MetadataRequest(topics=[]), 12).topics == []
    assert controller.asked == []


@pytest.mark.parametrize(
    ("outcome", "code"),
    [(RequestTimedOutError("no controller"), 7), (EnvelopeResponse(error_code=31), -1)],
    ids=["timeout", "refused"],
)
async def test_without_a_response_each_part_of_the_request_has_an_error(
    harness: Harness, controller: Controller, outcome: Any, code: int
) -> None:
    controller.outcome = outcome
    answer = await harness.send(CREATE, 7)
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("t", code)]


async def test_a_version_that_the_controller_lacks_ends_the_connection(
    harness: Harness, controller: Controller
) -> None:
    controller.outcome = EnvelopeResponse(error_code=35)
    # The connection is closed for any error of a response.
    with pytest.raises(UnsupportedVersionError):
        await harness.send(CREATE, 7)


async def test_faults_apply_to_forwarded_requests(harness: Harness, controller: Controller) -> None:
    harness.faults.delay("CreateTopics", seconds=0)
    answer = await harness.send(CREATE, 7)
    assert answer.topics[0].num_partitions == 5
    assert len(controller.asked) == 1
