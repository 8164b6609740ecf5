"""One measurement of groups in a separate process: `group_load.py coordinator|gap BOOTSTRAP NAME WAY`.

`coordinator`: a hundred groups of ten light members, each only a connection and a state, so that the broker is what is
measured: the time until all groups have formed, the time of a rebalance when all groups rebalance at once, and the time
of a heartbeat among a thousand members. NAME is the prefix of the groups; WAY is not used.

`gap`: nine members of kclient read a topic that is written continuously. A tenth joins at the moment when one of the
nine starts to work on its records for two seconds. Members that have to wait for it receive nothing in that time, which
distinguishes an eager rebalance from one that only interrupts moving partitions. The result is the longest time without
records of partitions that stay with their members, except the slow one; of those that move; and, in the same run, of
those that stay while no member joins. NAME is the topic; WAY is an assignor of the classic protocol, or `consumer` for
the protocol of KIP-848.

Prints one JSON object. Elsewhere: brokers, topics and comparison (`groups`).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import struct
import sys
import threading
import time
from typing import Any

from kclient.protocol import Message
from kclient.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kclient.protocol.frames import decode_response_header, encode_request
from kclient.protocol.log_records import encode_versioned
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest
from kclient.protocol.messages.heartbeat import HeartbeatRequest
from kclient.protocol.messages.join_group import JoinGroupRequest
from kclient.protocol.messages.sync_group import SyncGroupRequest

GROUPS = 100
MEMBERS = 10
ROUNDS = 5
HEARTBEATS = 10
MEMBER_ID_REQUIRED = 79
PASSES = (14, 15, 16, 27)
"""The coordinator is loading or unknown; or another rebalance has started."""

GAP_PARTITIONS = 40
QUIET_SECONDS = 6.0
WORK_SECONDS = 2.0
"""How long the slow member works on the records of one call, in seconds."""
WRITE_EVERY = 0.02


# --- light members ---------------------------------------------------------------------------------------------------


class LightMember:
    """A member of one group over one connection.

    Parameters:
        group: the name of the group.
        whole: set once all members are in it.
    """

    def __init__(self, group: str, whole: asyncio.Event) -> None:
        self.group = group
        self._whole = whole
        self.member_id = ""
        self.generation = -1
        self._correlation_id = 0

    async def connect(self, bootstrap: str) -> None:
        host, _, port = bootstrap.split(",")[0].rpartition(":")
        self._reader, self._writer = await asyncio.open_connection(host, int(port))

    async def ask(self, request: Any, version: int) -> Any:
        self._correlation_id += 1
        self._writer.writelines(encode_request(request, version, self._correlation_id, "light"))
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        frame = await self._reader.readexactly(size)
        _, body = decode_response_header(request.api_key, version, frame)
        return type(request).response_type.decode(body, version)

    async def find_coordinator(self) -> None:
        """Wait until the broker is the coordinator."""
        request = FindCoordinatorRequest(coordinator_keys=[self.group])
        while True:
            found = await self.ask(request, 6)
            if not found.coordinators[0].error_code:
                return
            await asyncio.sleep(0.05)

    async def rebalance(self, number: int) -> None:
        """Join with a changed subscription, and wait for the assignment."""
        subscription = ConsumerProtocolSubscription(topics=["t"], user_data=b"%d" % number)
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=encode_versioned(subscription, 1))
        while True:
            joined = await self.ask(
                JoinGroupRequest(
                    group_id=self.group,
                    session_timeout_ms=45_000,
                    rebalance_timeout_ms=60_000,
                    member_id=self.member_id,
                    protocol_type="consumer",
                    protocols=[protocol],
                ),
                9,
            )
            if joined.error_code == MEMBER_ID_REQUIRED:
                self.member_id = joined.member_id
                continue
            if joined.error_code in PASSES:
                await asyncio.sleep(0.05)
                continue
            assert joined.error_code == 0, joined
            self.generation = joined.generation_id
            synced = await self.ask(self._sync(joined), 5)
            if synced.error_code in PASSES:
                continue
            assert synced.error_code == 0, synced
            if len(joined.members) == MEMBERS:
                self._whole.set()
            if await self._is_whole():
                return

    async def _is_whole(self) -> bool:
        """Stay in the group until all members are in it; return False on a rebalance, which only a heartbeat
        reports.
        """
        while not self._whole.is_set():
            if (await self._beat()).error_code in PASSES:
                return False
            await asyncio.sleep(0.02)
        return True

    def _sync(self, joined: Any) -> Message:
        kind = SyncGroupRequest.SyncGroupRequestAssignment
        one = ConsumerProtocolAssignment.TopicPartition(topic="t", partitions=[0])
        share = encode_versioned(ConsumerProtocolAssignment(assigned_partitions=[one]), 1)
        leads = joined.leader == self.member_id
        return SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[kind(member_id=m.member_id, assignment=share) for m in joined.members] if leads else [],
        )

    async def heartbeat(self) -> float:
        started = time.perf_counter()
        answer = await self._beat()
        assert answer.error_code == 0, answer
        return time.perf_counter() - started

    async def _beat(self) -> Any:
        request = HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.member_id)
        return await self.ask(request, 4)


async def _rebalance_group(members: list[LightMember], number: int) -> float:
    started = time.perf_counter()
    await asyncio.gather(*(member.rebalance(number) for member in members))
    return time.perf_counter() - started


async def coordinator(bootstrap: str, name: str) -> dict[str, float]:
    groups = []
    for number in range(GROUPS):
        whole = asyncio.Event()
        groups.append([LightMember(f"{name}-{number}", whole) for _ in range(MEMBERS)])
    members = [member for group in groups for member in group]
    for member in members:
        await member.connect(bootstrap)
    await members[0].find_coordinator()
    started = time.perf_counter()
    await asyncio.gather(*(_rebalance_group(group, 0) for group in groups))
    formed = time.perf_counter() - started
    each: list[float] = []
    together: list[float] = []
    for number in range(1, ROUNDS + 1):
        started = time.perf_counter()
        each += await asyncio.gather(*(_rebalance_group(group, number) for group in groups))
        together.append(time.perf_counter() - started)
    alone = [await _rebalance_group(group, ROUNDS + 1) for group in groups]
    beats: list[float] = []
    for _ in range(HEARTBEATS):
        beats += await asyncio.gather(*(member.heartbeat() for member in members))
    return {
        "formed_ms": formed * 1000,
        "together_ms": min(together) * 1000,
        "p50_ms": _quantile(each, 0.5) * 1000,
        "p99_ms": _quantile(each, 0.99) * 1000,
        "alone_p50_ms": _quantile(alone, 0.5) * 1000,
        "heartbeat_p99_ms": _quantile(beats, 0.99) * 1000,
    }


def _quantile(samples: list[float], part: float) -> float:
    ordered = sorted(samples)
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)]


# --- the gap ---------------------------------------------------------------------------------------------------------


class Reading:
    """A member of kclient in a thread, which records when each partition returned records.

    Parameters:
        way: see the module.
        work: the seconds between two calls.
    """

    def __init__(self, bootstrap: str, topic: str, way: str, work: float = 0.0) -> None:
        from kclient import Consumer

        self.arrivals: dict[int, list[float]] = {}
        self.ended = threading.Event()
        self.works = threading.Event()
        how: dict[str, Any] = {"partition_assignment_strategy": [way], "heartbeat_interval_ms": 500}
        self.consumer = Consumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=f"gap-{topic}-{way}",
            fetch_max_wait_ms=100,
            **({"group_protocol": way} if way == "consumer" else how),
        )
        self.owned: frozenset[int] = frozenset()
        self._work = work
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        with self.consumer as consumer:
            while not self.ended.is_set():
                records = consumer.poll(0.05)
                now = time.perf_counter()
                for tp in records.by_partition():
                    self.arrivals.setdefault(tp.partition, []).append(now)
                self.owned = frozenset(tp.partition for tp in consumer.assignment())
                if self._work and records:
                    self.works.set()
                    self.ended.wait(self._work)

    def begin_to_work(self) -> None:
        """Wait until it starts to work on records."""
        self.works.clear()
        self.works.wait()

    def end(self) -> None:
        self.ended.set()
        self._thread.join()


def _write(bootstrap: str, topic: str, ended: threading.Event) -> None:
    from kclient import Producer

    with Producer(bootstrap_servers=bootstrap, linger_ms=0) as producer:
        while not ended.wait(WRITE_EVERY):
            for partition in range(GAP_PARTITIONS):
                producer.send(topic, b"v", partition=partition)


def _settled(members: list[Reading]) -> bool:
    owned = sorted(number for member in members for number in member.owned)
    least = GAP_PARTITIONS // len(members)
    return owned == list(range(GAP_PARTITIONS)) and all(len(member.owned) >= least for member in members)


def _longest(arrivals: list[float], begin: float, end: float) -> float:
    """Return the longest time within a span without an arrival."""
    points = [begin, *(when for when in arrivals if begin < when < end), end]
    return max(after - before for before, after in itertools.pairwise(points))


def gap(bootstrap: str, topic: str, way: str) -> dict[str, float]:
    ended = threading.Event()
    writer = threading.Thread(target=_write, args=(bootstrap, topic, ended))
    writer.start()
    slow = Reading(bootstrap, topic, way, WORK_SECONDS)
    members = [slow, *(Reading(bootstrap, topic, way) for _ in range(MEMBERS - 2))]
    try:
        while not _settled(members):
            time.sleep(0.05)
        time.sleep(2.0)
        quiet = time.perf_counter()
        time.sleep(QUIET_SECONDS)
        slow.begin_to_work()
        before = [(member, member.owned) for member in members]
        began = time.perf_counter()
        members.append(Reading(bootstrap, topic, way))
        while not _settled(members):
            time.sleep(0.05)
        took = time.perf_counter() - began
        time.sleep(1.0)
        until = time.perf_counter()
    finally:
        ended.set()
        writer.join()
        for member in members:
            member.end()
    stays = [(member, number) for member, owned in before if member is not slow for number in owned & member.owned]
    moves = [number for member, owned in before if member is not slow for number in owned - member.owned]
    anywhere = {n: sorted(when for member in members for when in member.arrivals.get(n, ())) for n in moves}
    gaps = [_longest(member.arrivals[number], began, until) for member, number in stays]
    return {
        "quiet_ms": 1000 * max(_longest(member.arrivals[number], quiet, began) for member, number in stays),
        "gap_ms": 1000 * max(gaps),
        "gap_p50_ms": 1000 * _quantile(gaps, 0.5),
        "moved_ms": 1000 * max((_longest(anywhere[number], began, until) for number in moves), default=0.0),
        "took_ms": 1000 * took,
        "stays": len(stays),
        "moves": len(moves),
    }


if __name__ == "__main__":
    what, at, name, way = sys.argv[1:5]
    print(json.dumps(asyncio.run(coordinator(at, name)) if what == "coordinator" else gap(at, name, way)))
