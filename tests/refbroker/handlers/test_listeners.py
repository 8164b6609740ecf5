"""The addresses that responses contain are those of the listener that the client is connected to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kclient.errors import (
    CoordinatorNotAvailableError,
    LeaderNotAvailableError,
    ListenerNotFoundError,
    ReplicaNotAvailableError,
)
from kclient.protocol.messages.describe_cluster import DescribeClusterRequest
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest
from kclient.protocol.messages.metadata import MetadataRequest
from tests.support.broker_harness import Harness

INSIDE, OUTSIDE, HIDDEN = ("kafka.internal", 9094), ("kafka.example", 443), None
ENDPOINTS = pytest.mark.parametrize(
    ("listener", "endpoint"),
    [("INSIDE", INSIDE), ("OUTSIDE", OUTSIDE), ("HIDDEN", HIDDEN)],
    ids=["inside", "outside", "not advertised"],
)

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Harness]:
    harness = Harness(
        tmp_path,
        listeners="INSIDE://:9094,OUTSIDE://:9095,HIDDEN://:9096",
        listener_security_protocol_map="INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,HIDDEN:PLAINTEXT",
        advertised_listeners="INSIDE://kafka.internal:9094,OUTSIDE://kafka.example:443",
    )
    yield harness
    harness.close()


@ENDPOINTS
@pytest.mark.parametrize("version", [0, 5, 13])
async def test_metadata_contains_the_listeners_address(
    harness: Harness, listener: str, endpoint: tuple[str, int] | None, version: int
) -> None:
    harness.create("t")
    harness.connection.listener = listener
    answer = harness.send(MetadataRequest(topics=[] if version == 0 else None), version)
    (partition,) = answer.topics[0].partitions
    if endpoint is not None:
        assert [(broker.host, broker.port) for broker in answer.brokers] == [endpoint]
        assert (partition.error_code, partition.leader_id) == (0, harness.broker.node_id)
    else:
        error = LeaderNotAvailableError if version < 6 else ListenerNotFoundError
        assert answer.brokers == []
        assert (partition.error_code, partition.leader_id) == (error.code, -1)
        assert partition.replica_nodes == partition.isr_nodes == ([harness.broker.node_id] if version else [])


async def test_version_0_has_no_replicas_that_cannot_be_reached(harness: Harness) -> None:
    harness.create("t")
    harness.assign("t", 7)
    harness.connection.listener = "INSIDE"
    (partition,) = harness.send(MetadataRequest(topics=[]), 0).topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (ReplicaNotAvailableError.code, harness.broker.node_id)
    assert partition.replica_nodes == [harness.broker.node_id]
    (partition,) = harness.send(MetadataRequest(topics=None), 1).topics[0].partitions
    assert (partition.error_code, partition.replica_nodes) == (0, [harness.broker.node_id, 7])


@ENDPOINTS
async def test_the_cluster_is_described_with_the_listeners_address(
    harness: Harness, listener: str, endpoint: tuple[str, int] | None
) -> None:
    harness.connection.listener = listener
    answer = harness.send(DescribeClusterRequest(), 1)
    assert [(broker.host, broker.port) for broker in answer.brokers] == ([] if endpoint is None else [endpoint])


@ENDPOINTS
async def test_a_coordinator_is_found_at_the_listeners_address(
    harness: Harness, listener: str, endpoint: tuple[str, int] | None
) -> None:
    harness.connection.listener = listener
    (found,) = harness.send(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4).coordinators
    if endpoint is None:
        assert (found.error_code, found.node_id) == (CoordinatorNotAvailableError.code, -1)
        assert found.error_message.endswith("has no leader on this listener")
    else:
        assert (found.error_code, found.host, found.port) == (0, *endpoint)


async def test_all_advertised_addresses_are_registered(harness: Harness) -> None:
    record = harness.broker.image.brokers[harness.broker.node_id].record
    assert [(point.name, point.host, point.port, point.security_protocol) for point in record.end_points] == [
        ("INSIDE", *INSIDE, 0),
        ("OUTSIDE", *OUTSIDE, 0),
    ]
