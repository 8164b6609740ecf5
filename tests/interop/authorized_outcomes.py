"""The outcomes of requests under ACLs: which errors each API has, and how often each outcome was seen.

Source: KafkaApis and ControllerApis of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, TOKEN = 29, 30, 31, 53, 65
REFUSALS = {
    TOPIC: "TOPIC",
    GROUP: "GROUP",
    CLUSTER: "CLUSTER",
    TRANSACTIONAL_ID: "TRANSACTIONAL_ID",
    TOKEN: "DELEGATION_TOKEN",
}
"""The error codes of refusals."""
ALLOWED, FILTERED, CLOSED = "allowed", "filtered", "closed"
"""No refusal; no refusal, and less than a super user gets; the broker has closed the connection."""

_OF_CLUSTER = [
    "AlterClientQuotas",
    "AlterPartitionReassignments",
    "AlterReplicaLogDirs",
    "AlterUserScramCredentials",
    "CreateAcls",
    "DeleteAcls",
    "DescribeAcls",
    "DescribeClientQuotas",
    "DescribeLogDirs",
    "DescribeQuorum",
    "DescribeUserScramCredentials",
    "ElectLeaders",
    "ListConfigResources",
    "ListPartitionReassignments",
    "UnregisterBroker",
    "UpdateFeatures",
    "WriteTxnMarkers",
]
_OF_TOPICS = [
    "CreatePartitions",
    "CreateTopics",
    "DeleteRecords",
    "DeleteTopics",
    "DescribeProducers",
    "Fetch",
    "ListOffsets",
    "OffsetForLeaderEpoch",
]
_OF_GROUPS = ["DeleteGroups", "DescribeGroups", "Heartbeat", "JoinGroup", "LeaveGroup", "SyncGroup"]
OUTCOMES: dict[str, tuple[int | str, ...]] = {
    **dict.fromkeys(_OF_CLUSTER, (CLUSTER,)),
    **dict.fromkeys(_OF_TOPICS, (TOPIC,)),
    **dict.fromkeys(_OF_GROUPS, (GROUP,)),
    "AddOffsetsToTxn": (TRANSACTIONAL_ID, GROUP),
    "AddPartitionsToTxn": (TRANSACTIONAL_ID, TOPIC, CLUSTER),
    "AlterConfigs": (TOPIC, GROUP, CLUSTER),
    "ConsumerGroupDescribe": (GROUP, TOPIC),
    "ConsumerGroupHeartbeat": (GROUP, TOPIC),
    "CreateDelegationToken": (TOKEN,),
    "DescribeCluster": (FILTERED,),
    "DescribeConfigs": (TOPIC, GROUP, CLUSTER),
    "DescribeDelegationToken": (FILTERED,),
    "DescribeTopicPartitions": (TOPIC, FILTERED),
    "DescribeTransactions": (TRANSACTIONAL_ID,),
    "EndTxn": (TRANSACTIONAL_ID,),
    # Renewing and expiring need no permission.
    "ExpireDelegationToken": (),
    "FindCoordinator": (GROUP, TRANSACTIONAL_ID),
    "IncrementalAlterConfigs": (TOPIC, GROUP, CLUSTER),
    "InitProducerId": (TRANSACTIONAL_ID, CLUSTER),
    "ListGroups": (FILTERED,),
    "ListTransactions": (FILTERED,),
    "Metadata": (TOPIC, FILTERED),
    "OffsetCommit": (GROUP, TOPIC),
    "OffsetDelete": (GROUP, TOPIC),
    "OffsetFetch": (GROUP, TOPIC, FILTERED),
    "Produce": (TRANSACTIONAL_ID, TOPIC, CLOSED),
    "RenewDelegationToken": (),
    "TxnOffsetCommit": (TRANSACTIONAL_ID, GROUP, TOPIC),
}
"""What can happen to the requests of each API, besides ALLOWED."""


class Coverage:
    """Counts the outcomes of requests by API."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[str, int | str]] = Counter()

    def add(self, api: str, answer: Any, everything: Any) -> None:
        """Count the outcomes of one request.

        Parameters:
            answer: what the response shows (`authorizing.shown`), or CLOSED.
            everything: what a super user is shown; it matters for APIs that filter only.
        """
        found: set[int | str] = {CLOSED} if answer == CLOSED else set(_refusals(answer))
        if not found:
            filtered = FILTERED in OUTCOMES[api] and answer != everything
            found = {FILTERED if filtered else ALLOWED}
        self._seen.update((api, outcome) for outcome in found)

    def lines(self) -> Iterator[str]:
        """Yield a line for each API."""
        for api, outcomes in sorted(OUTCOMES.items()):
            counts = (f"{_name(one)} {self._seen[api, one]}" for one in (ALLOWED, *outcomes))
            yield f"{api:28} {', '.join(counts)}"

    def below(self, least: int) -> list[str]:
        """Return the outcomes that were seen less often than this."""
        return [
            f"{api}: {_name(one)} {self._seen[api, one]}"
            for api, outcomes in sorted(OUTCOMES.items())
            for one in (ALLOWED, *outcomes)
            if self._seen[api, one] < least
        ]

    def unexpected(self) -> list[str]:
        """Return the outcomes that an API should not have."""
        return [f"{api}: {_name(one)}" for api, one in self._seen if one not in (ALLOWED, *OUTCOMES[api])]


def _name(outcome: int | str) -> str:
    return REFUSALS[outcome] if isinstance(outcome, int) else outcome


def _refusals(answer: Any) -> Iterator[int]:
    """Yield the error codes of refusals anywhere in an answer."""
    if isinstance(answer, dict):
        for key, value in answer.items():
            if key.endswith("error_code") and value in REFUSALS:
                yield value
            yield from _refusals(value)
    elif isinstance(answer, list):
        for one in answer:
            yield from _refusals(one)
