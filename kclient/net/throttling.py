"""The versions from which on a broker leaves it to the client to wait for a throttle time (KIP-219).

Older versions are answered when the time has passed, so that a client must not wait again. Source: shouldClientThrottle
of the Java client's responses.
"""

from __future__ import annotations

from kclient.protocol import API_NAMES, Message

_FIRST = {
    "Produce": 6, "Fetch": 8, "ListOffsets": 3, "Metadata": 6, "OffsetCommit": 4, "OffsetFetch": 4,
    "FindCoordinator": 2, "JoinGroup": 3, "Heartbeat": 2, "LeaveGroup": 2, "SyncGroup": 2, "DescribeGroups": 2,
    "ListGroups": 2, "ApiVersions": 2, "CreateTopics": 3, "DeleteTopics": 2, "DeleteRecords": 1, "InitProducerId": 1,
    "AddPartitionsToTxn": 1, "AddOffsetsToTxn": 1, "EndTxn": 1, "TxnOffsetCommit": 1, "DescribeAcls": 1,
    "CreateAcls": 1, "DeleteAcls": 1, "DescribeConfigs": 2, "AlterConfigs": 1, "AlterReplicaLogDirs": 1,
    "DescribeLogDirs": 1, "CreatePartitions": 1, "CreateDelegationToken": 1, "RenewDelegationToken": 1,
    "ExpireDelegationToken": 1, "DescribeDelegationToken": 1, "DeleteGroups": 1,
}  # fmt: skip
"""By API; 0 for those that are newer than KIP-219."""
_FIRST_BY_KEY = {key: _FIRST.get(name, 0) for key, name in API_NAMES.items()}


def throttle_seconds(response: Message, version: int) -> float:
    """Return how many seconds to send nothing after a response; 0.0 for most."""
    milliseconds: int = getattr(response, "throttle_time_ms", 0)
    if milliseconds <= 0 or version < _FIRST_BY_KEY.get(response.api_key, 0):
        return 0.0
    return milliseconds / 1000
