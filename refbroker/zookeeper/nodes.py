"""The nodes of the registry: paths, and values as Kafka wrote them in JSON.

    /cluster/id                               persistent   {"version":"1","id":"..."}
    /brokers/ids/N                            ephemeral    the addresses of a live broker
    /controller                               ephemeral    the broker that is the controller
    /controller_epoch                         persistent   a number, one more for each controller
    /brokers/topics/T                         persistent   the replicas of each partition
    /brokers/topics/T/partitions/P/state      persistent   its leader and in-sync replicas
    /config/topics/T                          persistent   the settings that differ from the broker's

Source: `zkData.scala` of Kafka 2.8; the addresses as Kafka 0.10.2 wrote them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from refbroker.metadata.image import PartitionState, TopicState
from refbroker.settings.listeners import Listener, SecurityProtocol

CLUSTER_ID = "/cluster/id"
BROKERS = "/brokers/ids"
TOPICS = "/brokers/topics"
TOPIC_CONFIGS = "/config/topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
PERSISTENT = ("/cluster", BROKERS, TOPICS, TOPIC_CONFIGS)
"""The folders that every registry has."""

_NO_PORT = -1


def broker_path(node_id: int) -> str:
    """Return the path of a broker's node."""
    return f"{BROKERS}/{node_id}"


def topic_path(topic: str) -> str:
    """Return the path of a topic's node."""
    return f"{TOPICS}/{topic}"


def config_path(topic: str) -> str:
    """Return the path of the settings of a topic."""
    return f"{TOPIC_CONFIGS}/{topic}"


def partitions_path(topic: str) -> str:
    """Return the path of the folder of a topic's partitions."""
    return f"{topic_path(topic)}/partitions"


def state_path(topic: str, partition: int) -> str:
    """Return the path of a partition's state, which is in a folder of its own."""
    return f"{partitions_path(topic)}/{partition}/state"


def cluster_value(cluster_id: str) -> bytes:
    """Return the value of `/cluster/id`."""
    return _json({"version": "1", "id": cluster_id})


def cluster_in(value: bytes) -> str | None:
    """Return the cluster id in a value, None if it has none."""
    found = _fields(value).get("id")
    return found if isinstance(found, str) else None


def broker_value(listeners: Iterable[tuple[Listener, SecurityProtocol]], rack: str | None, timestamp_ms: int) -> bytes:
    """Return the value of a broker's node, in version 4.

    Parameters:
        listeners: the advertised addresses with their security protocols.
        timestamp_ms: when it registers.
    """
    found = list(listeners)
    # Clients of Kafka before 0.9 know only this address.
    plain = next((listener for listener, protocol in found if protocol is SecurityProtocol.PLAINTEXT), None)
    value: dict[str, Any] = {
        "listener_security_protocol_map": {listener.name: protocol.name for listener, protocol in found},
        "endpoints": [str(listener) for listener, _ in found],
        "jmx_port": _NO_PORT,
        "host": None if plain is None else plain.host,
        "timestamp": str(timestamp_ms),
        "port": _NO_PORT if plain is None else plain.port,
        "version": 4,
    }
    return _json(value if rack is None else {**value, "rack": rack})


def endpoints_in(value: bytes) -> list[str]:
    """Return the addresses in the value of a broker's node."""
    found = _fields(value).get("endpoints")
    return [str(each) for each in found] if isinstance(found, list) else []


def controller_value(node_id: int, timestamp_ms: int) -> bytes:
    """Return the value of `/controller`."""
    return _json({"version": 1, "brokerid": node_id, "timestamp": str(timestamp_ms)})


def controller_in(value: bytes) -> int | None:
    """Return the broker in the value of `/controller`, None if it has none."""
    found = _fields(value).get("brokerid")
    return found if isinstance(found, int) else None


def topic_value(topic: TopicState) -> bytes:
    """Return the value of a topic's node: the replicas of each partition."""
    replicas = {str(number): topic.partitions[number].replicas for number in sorted(topic.partitions)}
    return _json({"version": 1, "partitions": replicas})


def state_value(state: PartitionState, controller_epoch: int) -> bytes:
    """Return the value of a partition's state.

    Parameters:
        controller_epoch: that of the controller that decided it.
    """
    return _json(
        {
            "controller_epoch": controller_epoch,
            "leader": state.leader,
            "version": 1,
            "leader_epoch": state.leader_epoch,
            "isr": state.isr,
        }
    )


def config_value(configs: Mapping[str, str]) -> bytes:
    """Return the value of the settings of a topic."""
    return _json({"version": 1, "config": dict(configs)})


def topic_values(topic: TopicState, configs: Mapping[str, str], controller_epoch: int) -> dict[str, bytes]:
    """Return all nodes of a topic, each folder before what is in it."""
    found = {config_path(topic.name): config_value(configs), topic_path(topic.name): topic_value(topic)}
    found[partitions_path(topic.name)] = b""
    for number in sorted(topic.partitions):
        found[f"{partitions_path(topic.name)}/{number}"] = b""
        found[state_path(topic.name, number)] = state_value(topic.partitions[number], controller_epoch)
    return found


def is_same(old: bytes, new: bytes) -> bool:
    """Return whether two values say the same, whichever controller decided it."""
    return old == new or (b"controller_epoch" in new and _decision(old) == _decision(new))


def _decision(value: bytes) -> dict[str, Any]:
    return {name: what for name, what in _fields(value).items() if name != "controller_epoch"}


def _json(value: dict[str, Any]) -> bytes:
    return msgspec.json.encode(value)


def _fields(value: bytes) -> dict[str, Any]:
    """Return the fields of a value; none if it is not what Kafka writes."""
    try:
        found = msgspec.json.decode(value)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}
