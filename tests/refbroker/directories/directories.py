"""What tests of brokers with several data directories ask and look at: where partitions are, and their moves."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

from kclient.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from kclient.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kclient.protocol.messages.fetch import FetchRequest
from kclient.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kclient.records import read_batches
from refbroker.log import LogDirectory, PartitionLog
from refbroker.metadata.directories import directory_on
from tests.support.broker_harness import Harness
from tests.support.waiting import until

BROKER = 4


async def settled() -> None:
    """What has been planned for the next turns of the loop is done."""
    for _ in range(5):
        await asyncio.sleep(0)


def directory(harness: Harness, name: str) -> LogDirectory:
    return next(each for each in harness.broker.logs.directories if each.path.name == name)


def home(harness: Harness, topic: str, partition: int = 0) -> UUID:
    state = harness.broker.metadata.image.topics[topic].partitions[partition]
    return directory_on(state, harness.broker.node_id)


def place(harness: Harness, topic: str, partition: int = 0) -> str:
    found = harness.broker.logs.directory_of(topic, partition)
    assert found is not None
    return found.path.name


def describe(harness: Harness, topics: Any = None) -> dict[str, Any]:
    answer = harness.send(DescribeLogDirsRequest(topics=topics), 5)
    assert answer.error_code == 0
    return {Path(result.log_dir).name: result for result in answer.results}


def set_on_broker(harness: Harness, name: str, value: str) -> Any:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=BROKER,
        resource_name=str(harness.broker.node_id),
        configs=[IncrementalAlterConfigsRequest.AlterableConfig(name=name, config_operation=0, value=value)],
    )
    return harness.send(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0]


def fetch_request(topic: str, partition: int, *, max_wait_ms: int = 0) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[
            FetchRequest.FetchTopic(
                topic=topic,
                partitions=[
                    FetchRequest.FetchPartition(partition=partition, fetch_offset=1, partition_max_bytes=1 << 20)
                ],
            )
        ],
    )


# Moves, of the partition that the tests of moves have


def log_of(harness: Harness) -> PartitionLog:
    log = harness.broker.logs.get("moving", 0)
    assert log is not None
    return log


def values(harness: Harness) -> list[tuple[int, bytes]]:
    """Offset and value of every record."""
    log, found = log_of(harness), []
    at = log.log_start_offset
    while at < log.log_end_offset:
        for one in read_batches(log.read(at, 1 << 20).records.read()):
            found += [(record.offset, record.value or b"") for record in one.records() if record.offset >= at]
        at = found[-1][0] + 1
    return found


def ask(harness: Harness, name: str, topic: str = "moving", partition: int = 0) -> int:
    """Ask for a move, and give the error."""
    path = str(directory(harness, name).path) if name in ("meta", "one", "two") else name
    wanted = AlterReplicaLogDirsRequest.AlterReplicaLogDir(
        path=path,
        topics=[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(name=topic, partitions=[partition])],
    )
    answer = harness.send(AlterReplicaLogDirsRequest(dirs=[wanted]), 2)
    result = answer.results[0]
    assert (result.topic_name, result.partitions[0].partition_index) == (topic, partition)
    code: int = result.partitions[0].error_code
    return code


async def moved(harness: Harness) -> None:
    """All moves have come to an end."""
    await until(lambda: not len(harness.broker.moves))
    await settled()


def entries(harness: Harness, name: str) -> set[str]:
    """What logs are in a directory, by the beginnings and ends of their names."""
    found = [entry.name for entry in directory(harness, name).path.iterdir() if entry.name.startswith("moving")]
    return {name.split(".")[0] + (name[name.rindex("-") :] if "." in name else "") for name in found}
