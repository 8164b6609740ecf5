"""The controller as the parts of its own node ask it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kclient.errors import KafkaStorageError, PolicyViolationError, StaleBrokerEpochError, UnknownServerError
from kclient.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from kclient.protocol.messages.create_topics import CreateTopicsRequest
from kclient.protocol.messages.records.metadata_log import ProducerIdsRecord
from refbroker.controller.direct import DirectControllerClient
from refbroker.testing.simulated_disk import SimulatedDisk
from tests.support.broker_harness import Harness

Topic = CreateTopicsRequest.CreatableTopic


def block_request(harness: Harness) -> AllocateProducerIdsRequest:
    return AllocateProducerIdsRequest(broker_id=1, broker_epoch=harness.broker.broker_epoch)


async def test_a_block_of_producer_ids_is_in_the_log_before_it_is_assigned(harness: Harness) -> None:
    client = DirectControllerClient(harness.broker.controller)
    for first in (0, 1000):
        answer = client.ask(block_request(harness)).result()
        assert answer == AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=1000)
        assert harness.broker.image.next_producer_id == first + 1000


async def test_a_broker_in_another_epoch_gets_no_block(harness: Harness) -> None:
    client, end = DirectControllerClient(harness.broker.controller), harness.broker.metadata.end_offset
    for request in (
        AllocateProducerIdsRequest(broker_id=1, broker_epoch=harness.broker.broker_epoch - 1),
        AllocateProducerIdsRequest(broker_id=2, broker_epoch=harness.broker.broker_epoch),
    ):
        assert client.ask(request).result().error_code == StaleBrokerEpochError.code
    assert harness.broker.metadata.end_offset == end


async def test_no_block_is_assigned_beyond_the_last_producer_id(harness: Harness) -> None:
    harness.broker.controller.append([ProducerIdsRecord(next_producer_id=2**63 - 1000)])
    answer = DirectControllerClient(harness.broker.controller).ask(block_request(harness)).result()
    assert answer.error_code == UnknownServerError.code


async def test_a_topic_exists_when_the_answer_is_there(harness: Harness) -> None:
    request = CreateTopicsRequest(topics=[Topic(name="a", num_partitions=2, replication_factor=1)])
    answer = DirectControllerClient(harness.broker.controller).ask(request)
    assert harness.broker.image.topics["a"].topic_id == answer.result().topics[0].topic_id


async def test_a_change_that_cannot_be_stored_fails_the_future(tmp_path: Path) -> None:
    disk = SimulatedDisk()
    harness = Harness(tmp_path / "data", files=disk)
    disk.fail(operation="fsync")
    with pytest.raises(KafkaStorageError):
        DirectControllerClient(harness.broker.controller).ask(block_request(harness)).result()
    harness.close()


async def test_a_refused_request_fails_the_future(harness: Harness) -> None:
    request = CreateTopicsRequest(topics=[Topic(name="a", num_partitions=10_001, replication_factor=1)])
    with pytest.raises(PolicyViolationError):
        DirectControllerClient(harness.broker.controller).ask(request).result()
