"""Changes of the settings of a resource: the records of the change, or the error.

Topics, brokers ("" stands for all of them), groups and client metrics subscriptions have settings in the metadata.
Checks and messages are those of Kafka's brokers and controller: first those of the request, then those of the resulting
settings. Elsewhere: levels of loggers, which are not metadata (`refbroker.runtime.loggers`).

Not implemented: alter policies.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kclient.errors import InvalidConfigurationError, InvalidRequestError, UnknownTopicOrPartitionError
from kclient.protocol import Message
from kclient.protocol.messages.records.metadata_log import ClearElrRecord, ConfigRecord
from refbroker.controller.cluster import Cluster
from refbroker.controller.controller import Controller
from refbroker.controller.topics import check_configs, check_name
from refbroker.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from refbroker.settings.cross_checks import check_client_metrics, check_group
from refbroker.settings.definitions import (
    Setting,
    broker_settings,
    client_metrics_settings,
    group_settings,
    topic_settings,
)
from refbroker.settings.reconfiguration import check_change
from refbroker.settings.values import Type

LONGEST_VALUE = 2**15 - 1
_MIN_ISR = "min.insync.replicas"
_SETTINGS = {
    TOPIC_RESOURCE: topic_settings,
    BROKER_RESOURCE: broker_settings,
    CLIENT_METRICS_RESOURCE: client_metrics_settings,
    GROUP_RESOURCE: group_settings,
}


class Operation(enum.IntEnum):
    """The operation on a setting, with the numbers of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Edit(NamedTuple):
    """One change of a setting."""

    name: str
    operation: Operation
    value: str | None


def plan_edits(controller: Controller, resource_type: int, name: str, edits: Sequence[Edit]) -> list[Message]:
    """Return the records of changes to single settings of a resource.

    Raises:
        UnknownTopicOrPartitionError: the topic does not exist.
        InvalidTopicError: the topic name is invalid.
        InvalidRequestError: another broker, a kind of resource without settings, a setting that cannot be changed, no
            value.
        InvalidConfigurationError: a setting does not exist, or a value is invalid.
    """
    check_request(edits)
    settings = _settings_of(controller, resource_type, name)
    present = controller.image.config(resource_type, name)
    changes: dict[str, str | None] = {}
    for edit in edits:
        if edit.operation is Operation.SET:
            changes[edit.name] = edit.value
        elif edit.operation is Operation.DELETE:
            changes[edit.name] = None
        else:
            changes[edit.name] = _edited_list(edit, settings.get(edit.name), present, resource_type)
    return _records(controller, resource_type, name, changes)


def plan_replacement(controller: Controller, resource_type: int, name: str, edits: Sequence[Edit]) -> list[Message]:
    """Return the records that replace all settings of a resource; raises as `plan_edits` does."""
    check_request(edits)
    _settings_of(controller, resource_type, name)
    present = controller.image.config(resource_type, name)
    changes: dict[str, str | None] = dict.fromkeys(present)
    changes.update((edit.name, edit.value) for edit in edits)
    return _records(controller, resource_type, name, changes)


def check_request(edits: Sequence[Edit]) -> None:
    """Check that changes name each setting once and have values.

    Raises:
        InvalidRequestError: they do not.
    """
    if len({edit.name for edit in edits}) < len(edits):
        raise InvalidRequestError("Error due to duplicate config keys")
    without_value = [edit.name for edit in edits if edit.value is None and edit.operation is not Operation.DELETE]
    if without_value:
        raise InvalidRequestError(f"Null value not supported for : {', '.join(without_value)}")


def _settings_of(controller: Controller, resource_type: int, name: str) -> dict[str, Setting]:
    """Return the settings of a kind of resource."""
    settings = _SETTINGS.get(resource_type)
    if settings is None:
        raise InvalidRequestError(f"Unknown resource type {resource_type}")
    if resource_type == BROKER_RESOURCE and name:
        check_broker_name(controller, name)
    return settings()


def check_broker_name(controller: Controller, name: str) -> None:
    """Check that a resource is this broker.

    Raises:
        InvalidRequestError: it is another broker.
    """
    try:
        number = int(name)
    except ValueError:
        raise InvalidRequestError(f"Node id must be an integer, but it is: {name}") from None
    if number != controller.node_id:
        raise InvalidRequestError(f"Unexpected broker id, expected {controller.node_id}, but received {name}")


def _edited_list(edit: Edit, setting: Setting | None, present: Mapping[str, str], resource_type: int) -> str:
    verb = edit.operation.name
    # Kafka cannot edit the lists of a client metrics subscription, because their definitions lack the type.
    if resource_type == BROKER_RESOURCE:
        if setting is None:
            raise InvalidConfigurationError(f"Unknown config name: {edit.name}")
        if setting.type is not Type.LIST:
            raise InvalidConfigurationError(f"Config value {verb.lower()} is not allowed for config key: {edit.name}")
    elif setting is None or setting.type is not Type.LIST or resource_type == CLIENT_METRICS_RESOURCE:
        raise InvalidConfigurationError(f"Can't {verb} to key {edit.name} because its type is not LIST.")
    assert edit.value is not None
    parts = [part for part in present.get(edit.name, setting.default or "").split(",") if part]
    for part in edit.value.split(","):
        if edit.operation is Operation.APPEND:
            if part not in parts:
                parts.append(part)
        elif part in parts:
            parts.remove(part)
    return ",".join(parts)


def _records(controller: Controller, resource_type: int, name: str, changes: Mapping[str, str | None]) -> list[Message]:
    present = controller.image.config(resource_type, name)
    wanted = {key: value for key, value in present.items() if key not in changes}
    wanted.update({key: value for key, value in changes.items() if value is not None})
    if resource_type == BROKER_RESOURCE:
        check_change(wanted, changes.keys(), every_broker=not name, layers=controller.config.layers)
        _check_eligible_leaders(controller.cluster, name, changes)
    if any(value is not None and len(value) > LONGEST_VALUE for value in changes.values()):
        raise InvalidConfigurationError(
            "The configuration value cannot be added because it exceeds the maximum value size of "
            f"{LONGEST_VALUE} bytes."
        )
    if resource_type == TOPIC_RESOURCE:
        _check_topic(controller, name, wanted, present)
    elif resource_type == CLIENT_METRICS_RESOURCE:
        _check_subscription(name, wanted)
    elif resource_type == GROUP_RESOURCE:
        _check_group(controller, name, wanted)
    changed = {key: value for key, value in changes.items() if value != present.get(key)}
    records: list[Message] = [
        ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)
        for key, value in changed.items()
    ]
    if _MIN_ISR in changed and controller.cluster.has_eligible_leaders:
        # Who is eligible depends on the number of replicas that had to be in sync until now.
        records.append(ClearElrRecord(topic_name=name if resource_type == TOPIC_RESOURCE else ""))
    return records


def _check_eligible_leaders(cluster: Cluster, name: str, changes: Mapping[str, str | None]) -> None:
    if _MIN_ISR not in changes or not cluster.has_eligible_leaders:
        return
    if name:
        raise InvalidConfigurationError(f"Broker-level {_MIN_ISR} cannot be altered while ELR is enabled.")
    if changes[_MIN_ISR] is None:
        raise InvalidConfigurationError(f"Cluster-level {_MIN_ISR} cannot be removed while ELR is enabled.")


def _check_topic(controller: Controller, name: str, wanted: Mapping[str, str], present: Mapping[str, str]) -> None:
    if not name:
        raise InvalidRequestError("Default topic resources are not allowed.")
    check_name(name)
    check_configs(wanted, controller.config.layers, present)
    if name not in controller.image.topics:
        raise UnknownTopicOrPartitionError(f"The topic '{name}' does not exist.")


def _check_subscription(name: str, wanted: Mapping[str, str]) -> None:
    if not name:
        raise InvalidRequestError("Subscription name can't be empty")
    for key in wanted:
        if key not in client_metrics_settings():
            raise InvalidRequestError(f"Unknown client metrics configuration: {key}")
    for key, value in wanted.items():
        client_metrics_settings()[key].check(value)
    check_client_metrics(wanted)


def _check_group(controller: Controller, name: str, wanted: Mapping[str, str]) -> None:
    if not name:
        raise InvalidRequestError("Default group resources are not allowed.")
    for key in wanted:
        if key not in group_settings():
            raise InvalidConfigurationError(f"Unknown group config name: {key}")
    for key, value in wanted.items():
        group_settings()[key].check(value)
    check_group(wanted, controller.config.layers)
