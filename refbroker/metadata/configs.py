"""What becomes of changes to the settings of a topic or broker: the records that bring them about, or the error."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kclient.errors import InvalidConfigurationError, InvalidRequestError, UnknownTopicOrPartitionError
from kclient.protocol import Message
from kclient.protocol.messages.records.metadata_log import ConfigRecord
from refbroker.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from refbroker.settings.definitions import Setting, Type, broker_settings, parse_list, topic_settings
from refbroker.settings.effective import topic_value

if TYPE_CHECKING:
    from refbroker.broker import Broker


class Operation(enum.IntEnum):
    """What is done to a setting; the numbers are those of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Edit(NamedTuple):
    """One change."""

    name: str
    operation: Operation
    value: str | None


def plan_edits(broker: Broker, resource_type: int, resource_name: str, edits: Sequence[Edit]) -> list[Message]:
    """The records of changes to a resource.

    Raises:
        UnknownTopicOrPartitionError: there is no such topic.
        InvalidRequestError: another broker, another kind of resource, a setting that cannot be changed, no value.
        InvalidConfigurationError: no such setting, or a value it cannot have.
    """
    settings = _settings_of(broker, resource_type, resource_name)
    if len({edit.name for edit in edits}) < len(edits):
        raise InvalidRequestError("Each setting must appear at most once.")
    without_value = [edit.name for edit in edits if edit.value is None and edit.operation is not Operation.DELETE]
    if without_value:
        raise InvalidRequestError(f"Null value not supported for : {','.join(without_value)}")
    records: list[Message] = []
    for edit in edits:
        setting = settings.get(edit.name)
        if edit.operation is Operation.DELETE:
            value = None
        elif setting is None:
            kind = "topic" if resource_type == TOPIC_RESOURCE else "broker"
            raise InvalidConfigurationError(f"Unknown {kind} config name: {edit.name}")
        else:
            value = _new_value(broker, resource_type, resource_name, setting, edit)
            setting.check(value)
        records.append(
            ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=edit.name, value=value)
        )
    return records


def _settings_of(broker: Broker, resource_type: int, name: str) -> dict[str, Setting]:
    """The settings that a resource has and that can be changed."""
    if resource_type == TOPIC_RESOURCE:
        if name not in broker.metadata.image.topics:
            raise UnknownTopicOrPartitionError(f"The topic '{name}' does not exist.")
        return topic_settings()
    if resource_type != BROKER_RESOURCE:
        raise InvalidRequestError(f"Resources of type {resource_type} have no settings on this broker")
    if name and name != str(broker.node_id):
        raise InvalidRequestError(f"Unexpected broker id, expected {broker.node_id}, but received {name}")
    return broker_settings()


def _new_value(broker: Broker, resource_type: int, resource_name: str, setting: Setting, edit: Edit) -> str:
    assert edit.value is not None
    if resource_type == BROKER_RESOURCE and not setting.dynamic:
        raise InvalidRequestError(f"Cannot update these configs dynamically: [{setting.name}]")
    if edit.operation is Operation.SET:
        return edit.value
    if setting.type is not Type.LIST:
        raise InvalidConfigurationError(
            f"Can't {edit.operation.name} to key {setting.name} because its type is not LIST."
        )
    own = broker.metadata.image.config(resource_type, resource_name).get(setting.name)
    if own is None and resource_type == TOPIC_RESOURCE:
        own = topic_value(setting.name, {}, broker.config.layers).value
    elif own is None:
        own = broker.config.text(setting.name)
    present, given = parse_list(own or ""), parse_list(edit.value)
    if edit.operation is Operation.APPEND:
        return ",".join([*present, *(part for part in given if part not in present)])
    return ",".join(part for part in present if part not in given)
