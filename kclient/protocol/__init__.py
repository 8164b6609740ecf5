"""Kafka's protocol: every message of Kafka 4.3's clients and brokers, and their codec.

Bytes only: no sockets, no clock. `messages` has a module per API, declared with the words of `schema` and a decorator
of `declaration`; `frames` puts headers and sizes around them; `log_records` does the same for the records of the
brokers' internal logs. A module of messages is imported when one of them is looked up.
"""

from __future__ import annotations

import importlib
import re

from kclient.protocol.declaration import MESSAGES, REQUESTS, RESPONSES, Message
from kclient.protocol.schema import Struct

__all__ = ["API_NAMES", "Message", "Struct", "all_messages", "lookup", "request_type", "response_type"]

API_NAMES = {
    0: "Produce",
    1: "Fetch",
    2: "ListOffsets",
    3: "Metadata",
    8: "OffsetCommit",
    9: "OffsetFetch",
    10: "FindCoordinator",
    11: "JoinGroup",
    12: "Heartbeat",
    13: "LeaveGroup",
    14: "SyncGroup",
    15: "DescribeGroups",
    16: "ListGroups",
    17: "SaslHandshake",
    18: "ApiVersions",
    19: "CreateTopics",
    20: "DeleteTopics",
    21: "DeleteRecords",
    22: "InitProducerId",
    23: "OffsetForLeaderEpoch",
    24: "AddPartitionsToTxn",
    25: "AddOffsetsToTxn",
    26: "EndTxn",
    27: "WriteTxnMarkers",
    28: "TxnOffsetCommit",
    29: "DescribeAcls",
    30: "CreateAcls",
    31: "DeleteAcls",
    32: "DescribeConfigs",
    33: "AlterConfigs",
    34: "AlterReplicaLogDirs",
    35: "DescribeLogDirs",
    36: "SaslAuthenticate",
    37: "CreatePartitions",
    38: "CreateDelegationToken",
    39: "RenewDelegationToken",
    40: "ExpireDelegationToken",
    41: "DescribeDelegationToken",
    42: "DeleteGroups",
    43: "ElectLeaders",
    44: "IncrementalAlterConfigs",
    45: "AlterPartitionReassignments",
    46: "ListPartitionReassignments",
    47: "OffsetDelete",
    48: "DescribeClientQuotas",
    49: "AlterClientQuotas",
    50: "DescribeUserScramCredentials",
    51: "AlterUserScramCredentials",
    52: "Vote",
    53: "BeginQuorumEpoch",
    54: "EndQuorumEpoch",
    55: "DescribeQuorum",
    56: "AlterPartition",
    57: "UpdateFeatures",
    58: "Envelope",
    59: "FetchSnapshot",
    60: "DescribeCluster",
    61: "DescribeProducers",
    62: "BrokerRegistration",
    63: "BrokerHeartbeat",
    64: "UnregisterBroker",
    65: "DescribeTransactions",
    66: "ListTransactions",
    67: "AllocateProducerIds",
    68: "ConsumerGroupHeartbeat",
    69: "ConsumerGroupDescribe",
    70: "ControllerRegistration",
    71: "GetTelemetrySubscriptions",
    72: "PushTelemetry",
    73: "AssignReplicasToDirs",
    74: "ListConfigResources",
    75: "DescribeTopicPartitions",
    76: "ShareGroupHeartbeat",
    77: "ShareGroupDescribe",
    78: "ShareFetch",
    79: "ShareAcknowledge",
    80: "AddRaftVoter",
    81: "RemoveRaftVoter",
    82: "UpdateRaftVoter",
    83: "InitializeShareGroupState",
    84: "ReadShareGroupState",
    85: "WriteShareGroupState",
    86: "DeleteShareGroupState",
    87: "ReadShareGroupStateSummary",
    88: "StreamsGroupHeartbeat",
    89: "StreamsGroupDescribe",
    90: "DescribeShareGroupOffsets",
    91: "AlterShareGroupOffsets",
    92: "DeleteShareGroupOffsets",
}
"""The name of every API by its key."""

_OTHER_MODULES = (
    "headers",
    "consumer_protocol",
    "messages.envelope",
    "messages.records.metadata_log",
    "messages.records.consumer_offsets",
    "messages.records.share_groups",
    "messages.records.streams_groups",
    "messages.records.transaction_state",
    "messages.records.control",
    "messages.records.producer_snapshot",
)
"""The modules of messages that belong to no API."""


def lookup(name: str) -> type[Message]:
    """Return a message by Kafka's name, such as `FetchRequest` or `TopicRecord`.

    Raises:
        LookupError: the message does not exist.
    """
    if name not in MESSAGES:
        api = name.removesuffix("Request").removesuffix("Response")
        if api in _API_KEYS and api != name:
            importlib.import_module(f"{__name__}.messages.{_module_name(api)}")
        else:
            for module in _OTHER_MODULES:
                importlib.import_module(f"{__name__}.{module}")
    try:
        return MESSAGES[name]
    except KeyError:
        raise LookupError(f"Kafka has no message {name}") from None


def request_type(api_key: int) -> type[Message]:
    """Return the request of an API.

    Raises:
        LookupError: the API does not exist.
    """
    if api_key not in REQUESTS:
        lookup(f"{_api_name(api_key)}Request")
    return REQUESTS[api_key]


def response_type(api_key: int) -> type[Message]:
    """Return the response of an API.

    Raises:
        LookupError: the API does not exist.
    """
    if api_key not in RESPONSES:
        lookup(f"{_api_name(api_key)}Response")
    return RESPONSES[api_key]


def all_messages() -> dict[str, type[Message]]:
    """Return every message of Kafka by its name; imports all of them."""
    for api in API_NAMES.values():
        importlib.import_module(f"{__name__}.messages.{_module_name(api)}")
    for module in _OTHER_MODULES:
        importlib.import_module(f"{__name__}.{module}")
    # Other modules may declare messages of their own.
    return {name: kind for name, kind in sorted(MESSAGES.items()) if kind.__module__.startswith(__name__)}


_API_KEYS = {name: key for key, name in API_NAMES.items()}


def _api_name(api_key: int) -> str:
    try:
        return API_NAMES[api_key]
    except KeyError:
        raise LookupError(f"Kafka has no API with key {api_key}") from None


def _module_name(api: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", api).lower()
