"""A whole broker that joins the cluster of a scripted controller, on a loop without real time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kclient.errors import ConfigError, InconsistentClusterIdError, RequestTimedOutError
from kclient.protocol import Message
from kclient.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from kclient.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kclient.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from kclient.protocol.messages.fetch import FetchRequest
from kclient.protocol.messages.records.metadata_log import (
    FeatureLevelRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from kclient.records import BatchBuilder
from refbroker.broker import Broker
from refbroker.config import BrokerConfig
from refbroker.log import Files
from refbroker.log.checkpoints import MetaProperties, write_meta_properties
from refbroker.metadata.directories import UNASSIGNED
from refbroker.metadata.versions import LATEST, encode_record
from refbroker.peers.network import Peer
from refbroker.runtime.clock import Clock
from refbroker.testing.simulation.listening import SimulatedListeners
from refbroker.testing.simulation.loop import SimulatedLoop
from tests.support.metadata_fetching import fetched
from tests.support.scripted_peers import Later, ScriptedPeers, simulated

TOPIC, HOME = UUID(int=100), UUID(int=200)
VERSIONS = {1: (4, 18), 58: (0, 0), 62: (0, 4), 63: (0, 2), 67: (0, 0), 73: (0, 0)}
SETTINGS = {
    "process.roles": "broker",
    "node.id": "11",
    "controller.quorum.voters": "1@controller:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
}


class ScriptedController:
    """The only controller of a cluster with one topic, which is on broker 11.

    Attributes:
        heartbeats: those that it has received.
        refusal: the error of registrations.
    """

    def __init__(self) -> None:
        self.peers = ScriptedPeers(self.answer, VERSIONS)
        self.heartbeats: list[BrokerHeartbeatRequest] = []
        self.refusal = 0
        self.records: list[Message] = [
            FeatureLevelRecord(name="metadata.version", feature_level=LATEST),
            TopicRecord(name="t", topic_id=TOPIC),
            PartitionRecord(
                partition_id=0, topic_id=TOPIC, replicas=[11], isr=[11], leader=11, directories=[UNASSIGNED]
            ),
        ]

    def answer(self, peer: Peer, request: Any, version: int) -> Message | Later | None:
        if isinstance(request, BrokerRegistrationRequest):
            self.records.append(RegisterBrokerRecord(broker_id=11, broker_epoch=3, log_dirs=request.log_dirs))
            return BrokerRegistrationResponse(broker_epoch=3, error_code=self.refusal)
        if isinstance(request, BrokerHeartbeatRequest):
            self.heartbeats.append(request)
            return BrokerHeartbeatResponse(
                is_caught_up=request.current_metadata_offset >= 3,
                is_fenced=request.want_fence,
                should_shut_down=request.want_shut_down,
            )
        if isinstance(request, FetchRequest):
            return self._fetched(request.topics[0].partitions[0].fetch_offset)
        return None

    def _fetched(self, offset: int) -> Message | Later:
        end = len(self.records)
        builder = BatchBuilder()
        for record in self.records[offset:]:
            builder.append(0, None, encode_record(record, LATEST))
        if offset == end:
            # As a controller without new records does.
            return Later(0.5, fetched(1, 2, high_watermark=end))
        data = bytes(builder.build(base_offset=offset, partition_leader_epoch=2))
        return fetched(1, 2, records=data, high_watermark=end)


def format_directory(directory: Path) -> None:
    directory.mkdir()
    write_meta_properties(Files(durable=False), directory, MetaProperties("cluster", 11, HOME))


Script = Callable[[Broker, ScriptedController], Coroutine[Any, Any, None]]


def joined(directory: Path, script: Script, controller: ScriptedController | None = None, **settings: str) -> None:
    """Run a script with a broker that has joined."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        found = controller or ScriptedController()
        named = {name.replace("_", "."): value for name, value in settings.items()}
        broker = await Broker.start(
            BrokerConfig({**SETTINGS, "log.dirs": str(directory), **named}),
            clock=Clock(lambda: int(loop.time() * 1000)),
            files=Files(durable=False),
            rng=random.Random(1),
            listeners=SimulatedListeners(loop.network),
            connector=found.peers,
        )
        try:
            await script(broker, found)
        finally:
            await broker.kill()

    simulated(main())


async def nothing(broker: Broker, controller: ScriptedController) -> None:
    """Do nothing with the broker."""


def test_the_broker_is_unfenced_after_it_has_the_metadata_and_serves(tmp_path: Path) -> None:
    async def script(broker: Broker, controller: ScriptedController) -> None:
        parts = broker.parts
        assert [beat.want_fence for beat in controller.heartbeats][-1] is False
        assert controller.heartbeats[-1].current_metadata_offset == 3
        assert parts.broker_epoch == 3
        # The log of the partition was created, and its directory is reported.
        assert parts.logs.get("t", 0) is not None
        assert any(isinstance(request, AssignReplicasToDirsRequest) for _, request in controller.peers.asked)
        assert parts.partitions.find("t", 0).log is parts.logs.get("t", 0)

    format_directory(tmp_path / "data")
    joined(tmp_path / "data", script)


def test_a_stop_waits_for_the_controlled_shutdown(tmp_path: Path) -> None:
    async def script(broker: Broker, controller: ScriptedController) -> None:
        await broker.stop()
        assert controller.heartbeats[-1].want_shut_down

    format_directory(tmp_path / "data")
    joined(tmp_path / "data", script)
    assert (tmp_path / "data" / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":3}'


def test_a_log_that_the_metadata_has_is_kept_over_a_restart(tmp_path: Path) -> None:
    async def script(broker: Broker, controller: ScriptedController) -> None:
        await broker.stop()

    format_directory(tmp_path / "data")
    joined(tmp_path / "data", script)
    # The local copy is not known to be committed, so the image is empty until the controller says more.
    joined(tmp_path / "data", script)
    assert (tmp_path / "data" / "t-0").is_dir()


def test_a_directory_that_is_not_formatted_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="refbroker format --cluster-id ID"):
        joined(tmp_path / "data", nothing)


def test_controllers_that_do_not_answer_end_the_start_in_time(tmp_path: Path) -> None:
    controller = ScriptedController()
    controller.peers.unreachable.add(9093)
    format_directory(tmp_path / "data")
    with pytest.raises(
        RequestTimedOutError, match=r"could not register within 5000 ms: .*could not connect to"
    ) as caught:
        joined(tmp_path / "data", nothing, controller, initial_broker_registration_timeout_ms="5000")
    assert caught.value.broker == "node 1 at controller:9093 (listener CONTROLLER, PLAINTEXT)"


def test_a_refused_registration_ends_the_start(tmp_path: Path) -> None:
    controller = ScriptedController()
    controller.refusal = InconsistentClusterIdError.code
    format_directory(tmp_path / "data")
    with pytest.raises(InconsistentClusterIdError, match="the controllers are not of the cluster cluster"):
        joined(tmp_path / "data", nothing, controller)
