"""AlterReplicaLogDirs (34), versions 1 to 2: moves partitions between the data directories of this broker (KIP-113).

The response is sent when the moves have started; DescribeLogDirs shows their progress. A partition that is already in
the directory stays there; a move to another directory is replaced. For a topic that does not exist, the error is
UNKNOWN_TOPIC_OR_PARTITION, and its log will be created in that directory. Other errors: LOG_DIR_NOT_FOUND for a path
that is not in `log.dirs`; KAFKA_STORAGE_ERROR for an offline directory or partition (and for any move while a directory
is offline, because the log could be there too); INVALID_REPLICA_ASSIGNMENT for a cordoned directory;
INVALID_TOPIC_EXCEPTION if the name is too long for the directory of a future log.

Permissions: ALTER on the cluster.
"""

from __future__ import annotations

from kclient.errors import (
    InvalidReplicaAssignmentError,
    InvalidTopicError,
    KafkaError,
    KafkaStorageError,
    LogDirNotFoundError,
    UnknownTopicOrPartitionError,
)
from kclient.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from refbroker.handlers.context import Context
from refbroker.handlers.services import LogDirServices
from refbroker.log.log_names import LONGEST_NAME, LogKind, log_name
from refbroker.runtime.error_codes import NONE, code_of
from refbroker.security.permissions import ALTER_CLUSTER

Topic = AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult
Partition = AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult


def handle(context: Context[LogDirServices], request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    """Carry out an AlterReplicaLogDirs request."""
    paths = {
        (topic.name, partition): each.path
        for each in request.dirs
        for topic in each.topics
        for partition in topic.partitions
    }
    results: dict[str, Topic] = {}
    refusal = context.access.refusal(ALTER_CLUSTER)
    for (topic, partition), path in paths.items():
        code = NONE
        try:
            if refusal is not None:
                raise refusal
            _move(context.broker, topic, partition, path)
        except KafkaError as error:
            code = code_of(error)
        result = results.setdefault(topic, Topic(topic_name=topic))
        result.partitions.append(Partition(partition_index=partition, error_code=code))
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _move(broker: LogDirServices, topic: str, partition: int, path: str) -> None:
    logs = broker.logs
    if len(log_name(topic, partition, LogKind.FUTURE)) > LONGEST_NAME:
        raise InvalidTopicError("The topic name is too long.", topic=topic, partition=partition)
    directory = logs.directory_at(path)
    if directory is None:
        raise LogDirNotFoundError(f"Log dir {path} is not found in the config.")
    if not directory.is_online:
        raise KafkaStorageError(f"Log directory {path} is offline")
    if directory in logs.cordoned:
        raise InvalidReplicaAssignmentError(f"Log directory {path} is cordoned")
    log = logs.get(topic, partition)
    if broker.image.partition(topic, partition) is None:
        logs.prefer(topic, partition, directory)
        raise UnknownTopicOrPartitionError(topic=topic, partition=partition)
    if log is None:
        raise KafkaStorageError("Partition is offline", topic=topic, partition=partition)
    if logs.directory_of(topic, partition) is directory:
        broker.moves.cancel(topic, partition)
        return
    if len(logs.online) < len(logs.directories):
        raise KafkaStorageError("No partition moves while a data directory is offline", topic=topic)
    broker.moves.start(log, directory)
