"""Blocks of producer ids: when the next one is requested, and what happens until it is there."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.errors import CoordinatorLoadInProgressError, RequestTimedOutError, StaleBrokerEpochError
from kclient.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from kclient.protocol.messages.records.metadata_log import RegisterBrokerRecord
from refbroker.coordinators.producer_ids import ProducerIds
from refbroker.metadata import ClusterImage
from tests.support.distant_controller import DistantController

NODE, EPOCH, SIZE = 3, 17, 10


class Ids:
    """Producer ids of a broker that is not the controller."""

    def __init__(self) -> None:
        self.controller = DistantController()
        image = ClusterImage()
        image.replay(RegisterBrokerRecord(broker_id=NODE, broker_epoch=EPOCH))
        self.producer_ids = ProducerIds(self.controller, image, NODE)

    def take(self, count: int) -> list[int]:
        return [self.producer_ids.next() for _ in range(count)]

    async def assign(self, first: int) -> None:
        """Answer a request with a block."""
        await self.controller.answer(AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=SIZE))

    def refuses(self) -> bool:
        try:
            self.producer_ids.next()
        except CoordinatorLoadInProgressError:
            return True
        return False


async def test_the_first_id_waits_for_a_block_that_is_requested_once() -> None:
    ids = Ids()
    assert ids.refuses()
    assert ids.refuses()
    assert ids.controller.requests == [AllocateProducerIdsRequest(broker_id=NODE, broker_epoch=EPOCH)]
    await ids.assign(500)
    assert ids.take(2) == [500, 501]


async def test_the_next_block_is_requested_before_the_current_one_is_used_up() -> None:
    ids = Ids()
    assert ids.refuses()
    await ids.assign(0)
    ids.take(SIZE - 1)
    assert not ids.controller.requests
    assert ids.take(1) == [SIZE - 1]
    assert len(ids.controller.requests) == 1
    await ids.assign(70)
    assert ids.take(SIZE) == list(range(70, 70 + SIZE))


async def test_a_block_that_is_late_delays_ids_and_skips_none() -> None:
    ids = Ids()
    assert ids.refuses()
    await ids.assign(0)
    ids.take(SIZE)
    assert ids.refuses()
    await ids.assign(40)
    assert ids.take(1) == [40]


@pytest.mark.parametrize(
    "outcome",
    [AllocateProducerIdsResponse(error_code=StaleBrokerEpochError.code), RequestTimedOutError()],
    ids=["refused", "not answered"],
)
async def test_a_failed_request_is_repeated_with_the_next_id(outcome: Any, caplog: pytest.LogCaptureFixture) -> None:
    ids = Ids()
    assert ids.refuses()
    await ids.controller.answer(outcome)
    assert "the controller did not assign a block of producer ids" in caplog.text
    assert not ids.controller.requests
    assert ids.refuses()
    await ids.assign(40)
    assert ids.take(1) == [40]


async def test_a_request_that_a_stop_cancels_has_no_effect() -> None:
    ids = Ids()
    assert ids.refuses()
    await ids.controller.cancel()
    assert ids.refuses()
