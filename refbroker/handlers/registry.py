"""The APIs of brokers and of controllers, with their versions and handlers.

ApiVersions advertises the APIs of the listener on which it is received: those of a broker, or on a listener of
controllers those of the controller. Versions are listed here so that ApiVersions need not import the messages of other
APIs. They are those of Kafka 4.3, except that InitProducerId ends with 5 (6 is for two-phase commit).
"""

from __future__ import annotations

import importlib
from typing import NamedTuple

from kclient.protocol import Message, request_type
from refbroker.handlers.context import Handler


class Api(NamedTuple):
    """An API of this broker.

    Attributes:
        module: the module of the handler, in this package.
        first, last: the supported versions.
        advertised_first: the first version in ApiVersions, if it differs.
    """

    module: str
    first: int
    last: int
    advertised_first: int | None = None


class Found(NamedTuple):
    """A handler and the class of its requests."""

    handle: Handler
    request_type: type[Message]


APIS: dict[int, Api] = {
    # librdkafka compresses only for brokers that advertise Produce from version 0 on.
    0: Api("produce", 3, 13, advertised_first=0),
    1: Api("fetch", 4, 18),
    2: Api("list_offsets", 1, 11),
    3: Api("metadata", 0, 13),
    8: Api("offset_commit", 2, 10),
    9: Api("offset_fetch", 1, 10),
    10: Api("find_coordinator", 0, 6),
    11: Api("join_group", 0, 9),
    12: Api("heartbeat", 0, 4),
    13: Api("leave_group", 0, 5),
    14: Api("sync_group", 0, 5),
    15: Api("describe_groups", 0, 6),
    16: Api("list_groups", 0, 5),
    17: Api("sasl_handshake", 0, 1),
    18: Api("api_versions", 0, 4),
    19: Api("create_topics", 2, 7),
    20: Api("delete_topics", 1, 6),
    21: Api("delete_records", 0, 2),
    22: Api("init_producer_id", 0, 5),
    23: Api("offset_for_leader_epoch", 2, 4),
    24: Api("add_partitions_to_txn", 0, 5),
    25: Api("add_offsets_to_txn", 0, 4),
    26: Api("end_txn", 0, 5),
    27: Api("write_txn_markers", 1, 2),
    28: Api("txn_offset_commit", 0, 5),
    29: Api("describe_acls", 1, 3),
    30: Api("create_acls", 1, 3),
    31: Api("delete_acls", 1, 3),
    32: Api("describe_configs", 1, 4),
    33: Api("alter_configs", 0, 2),
    34: Api("alter_replica_log_dirs", 1, 2),
    35: Api("describe_log_dirs", 1, 5),
    36: Api("sasl_authenticate", 0, 2),
    37: Api("create_partitions", 0, 3),
    38: Api("create_delegation_token", 1, 3),
    39: Api("renew_delegation_token", 1, 2),
    40: Api("expire_delegation_token", 1, 2),
    41: Api("describe_delegation_token", 1, 3),
    42: Api("delete_groups", 0, 2),
    43: Api("elect_leaders", 0, 2),
    44: Api("incremental_alter_configs", 0, 1),
    45: Api("alter_partition_reassignments", 0, 1),
    46: Api("list_partition_reassignments", 0, 0),
    47: Api("offset_delete", 0, 0),
    48: Api("describe_client_quotas", 0, 1),
    49: Api("alter_client_quotas", 0, 1),
    50: Api("describe_user_scram_credentials", 0, 0),
    51: Api("alter_user_scram_credentials", 0, 0),
    55: Api("describe_quorum", 0, 2),
    57: Api("update_features", 0, 2),
    60: Api("describe_cluster", 0, 2),
    61: Api("describe_producers", 0, 0),
    64: Api("unregister_broker", 0, 0),
    65: Api("describe_transactions", 0, 0),
    66: Api("list_transactions", 0, 2),
    68: Api("consumer_group_heartbeat", 0, 1),
    69: Api("consumer_group_describe", 0, 1),
    74: Api("list_config_resources", 0, 1),
    75: Api("describe_topic_partitions", 0, 0),
}

_SHARED = (
    *(17, 18, 19, 20, 29, 30, 31, 32, 33, 36, 37, 38, 39, 40, 41, 43, 44, 45, 46, 49, 50, 51),
    *(55, 57, 60, 64),
)
CONTROLLER_APIS: dict[int, Api] = {
    **{key: APIS[key] for key in _SHARED},
    56: Api("alter_partition", 2, 3),
    62: Api("broker_registration", 0, 4),
    63: Api("broker_heartbeat", 0, 2),
    67: Api("allocate_producer_ids", 0, 0),
    73: Api("assign_replicas_to_dirs", 0, 0),
}
"""The APIs on the listeners of controllers; the first ones are also those of brokers."""

FORWARDED = frozenset({19, 20, 30, 31, 33, 37, 38, 39, 40, 43, 44, 45, 46, 49, 51, 55, 57, 64})
"""The APIs of the controller: a broker under another controller forwards their requests, as in Kafka."""

_found: dict[str, Found] = {}


def find(api_key: int, version: int, *, of_controller: bool = False) -> Found | None:
    """Return the handler of an API, None if it is not supported in that version.

    Parameters:
        of_controller: whether the request came in on a listener of controllers.
    """
    api = (CONTROLLER_APIS if of_controller else APIS).get(api_key)
    if api is None or not api.first <= version <= api.last:
        return None
    found = _found.get(api.module)
    if found is None:
        module = importlib.import_module(f"refbroker.handlers.{api.module}")
        found = _found[api.module] = Found(module.handle, request_type(api_key))
    return found
