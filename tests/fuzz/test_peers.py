"""Hostile responses of other nodes: only errors with a type, no memory for sizes that are only announced."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kclient.errors import KafkaError
from kclient.protocol.frames import encode_response
from kclient.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kclient.protocol.messages.fetch_snapshot import FetchSnapshotResponse
from refbroker.log import Files
from refbroker.metadata.snapshot_file import SnapshotId
from refbroker.peers.channel import Channel, ChannelSettings
from refbroker.peers.network import Peer
from refbroker.peers.quorum import ControllerQuorum
from refbroker.peers.security import PeerSecurity
from refbroker.raft.observer import Observer, ObserverSettings
from refbroker.settings.listeners import SecurityProtocol
from tests.support.metadata_fetching import MemoryLog, batch, fetched
from tests.support.scripted_peers import ScriptedPeers, simulated

pytestmark = pytest.mark.fuzz

PEERS = [Peer(number, "controller", 9000 + number) for number in (1, 2)]
FRAME = b"".join(encode_response(BrokerHeartbeatResponse(is_caught_up=True), 2, 2))
OFFSETS = st.integers(-2, 30) | st.sampled_from([-(2**63), 2**63 - 1])
EPOCHS = st.integers(-2, 6) | st.just(2**31 - 1)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Return random bytes, or a response in which some bytes are changed, missing or added."""
    if draw(st.booleans()):
        return draw(st.binary(max_size=64))
    data = bytearray(FRAME)
    for _ in range(draw(st.integers(0, 3))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    cut = draw(st.integers(0, len(data)))
    return bytes(data[:cut] if draw(st.booleans()) else data) + draw(st.binary(max_size=8))


@given(damaged())
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_a_response_or_an_error_with_a_type(data: bytes) -> None:
    peers = ScriptedPeers(lambda peer, request, version: data, {63: (0, 2)})

    async def ask() -> None:
        security = PeerSecurity("CONTROLLER", SecurityProtocol.PLAINTEXT)
        channel = Channel(PEERS[0], security, peers, ChannelSettings("b", request_timeout=1.0), random.Random(1))
        try:
            answer = await channel.ask(BrokerHeartbeatRequest())
        except KafkaError:
            return
        finally:
            channel.close()
        assert isinstance(answer, BrokerHeartbeatResponse)

    simulated(ask())


@st.composite
def responses(draw: st.DrawFn) -> Any:
    """Return a response to Fetch or FetchSnapshot whose fields fit together only by chance."""
    leader, epoch = draw(st.integers(-1, 4)), draw(EPOCHS)
    code = draw(st.sampled_from([0, 0, 0, 0, 6, 74, 75, 98, 99, -1, 1000]))
    if draw(st.integers(0, 3)) == 0:
        kind = FetchSnapshotResponse
        data = draw(st.binary(max_size=40))
        piece = kind.PartitionSnapshot(
            error_code=code,
            size=draw(st.integers(-1, 60)),
            position=draw(st.integers(-1, 40)),
            unaligned_records=data,
            snapshot_id=kind.SnapshotId(end_offset=draw(OFFSETS), epoch=draw(EPOCHS)),
            current_leader=kind.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch),
        )
        count = draw(st.sampled_from([1, 1, 1, 0, 2]))
        return kind(topics=[kind.TopicSnapshot(name="__cluster_metadata", partitions=[piece] * count)])
    records = b"".join(
        batch(draw(st.integers(0, 20)), draw(st.integers(1, 3)), draw(st.integers(0, 5)))
        for _ in range(draw(st.integers(0, 2)))
    )
    return fetched(
        leader,
        epoch,
        code=code,
        endpoints={leader: (draw(st.sampled_from(["", "a"])), draw(st.integers(-1, 70_000)))},
        diverging=draw(st.none() | st.tuples(EPOCHS, OFFSETS)),
        snapshot=draw(st.none() | st.tuples(OFFSETS, EPOCHS)),
        records=records + draw(st.binary(max_size=5)),
        high_watermark=draw(OFFSETS),
    )


class CheckedLog(MemoryLog):
    """A log that loses nothing that is committed."""

    def truncate(self, offset: int) -> None:
        assert self.high_watermark <= offset < self.end_offset
        super().truncate(offset)

    def start_from_snapshot(self, snapshot_id: SnapshotId) -> None:
        assert snapshot_id.offset >= self.high_watermark
        super().start_from_snapshot(snapshot_id)


@given(st.lists(responses(), max_size=12))
@settings(max_examples=200, deadline=None)
def test_no_sequence_of_responses_removes_what_is_committed(found: list[Any]) -> None:
    with TemporaryDirectory() as directory:
        log, quorum = CheckedLog(Path(directory)), ControllerQuorum(PEERS)
        observer = Observer(
            ObserverSettings(7, UUID(int=7), "cluster", 1000, 500), log, quorum, Files(durable=False), lambda *_: None
        )
        epoch = 0
        for response in found:
            peer, request = observer.request()
            request.encode(request.max_version)
            try:
                pause = observer.on_response(peer, response)
            except KafkaError:
                continue
            assert 0 <= pause <= 1000
            assert quorum.epoch >= epoch
            assert 0 <= log.high_watermark <= log.end_offset
            epoch = quorum.epoch
