"""Keys and values of the records in the brokers' internal logs, with the bytes around their messages.

    a record of __cluster_metadata  := frame_version:uvarint (1) api_key:uvarint version:uvarint message
    a coordinator's key             := type:int16 message       (the type is the message's API key)
    a coordinator's value           := version:int16 message

The data that members of a classic group exchange begins with its version like a value.
"""

from __future__ import annotations

import importlib
import struct
from functools import cache
from typing import TypeVar

from kclient.errors import ProtocolError
from kclient.protocol.declaration import Message
from kclient.protocol.wire import read_uvarint, uvarint

METADATA_FRAME_VERSION = 1

M = TypeVar("M", bound=Message)
Data = bytes | bytearray | memoryview

_INT16 = struct.Struct(">h")


class UnknownRecordTypeError(ProtocolError):
    """A key of an unknown type, which a newer broker may have written.

    Attributes:
        record_type: the number of the type.
    """

    def __init__(self, record_type: int, log: str) -> None:
        super().__init__(f"there is no key of type {record_type} in {log}")
        self.record_type = record_type


def encode_metadata_record(message: Message, version: int) -> bytes:
    """Encode the value of a record of `__cluster_metadata`.

    Raises:
        ProtocolError: the version cannot carry the message.
    """
    frame = (METADATA_FRAME_VERSION, message.api_key, version)
    return b"".join((*map(uvarint, frame), message.encode(version)))


def decode_metadata_record(data: Data) -> Message:
    """Decode the value of a record of `__cluster_metadata`.

    Raises:
        ProtocolError: the type is unknown, or the bytes are malformed.
    """
    try:
        frame_version, position = read_uvarint(data, 0)
        api_key, position = read_uvarint(data, position)
        version, position = read_uvarint(data, position)
    except IndexError as error:
        raise ProtocolError("the bytes end within the frame of a metadata record") from error
    if frame_version != METADATA_FRAME_VERSION:
        raise ProtocolError(f"a metadata record in a frame of version {frame_version}")
    kind = _messages("metadata_log").get(("Record", api_key))
    if kind is None:
        raise ProtocolError(f"there is no metadata record of type {api_key}")
    return kind.decode(memoryview(data)[position:], version)


def encode_key(message: Message) -> bytes:
    """Encode a key of `__consumer_offsets` or `__transaction_state`."""
    return _INT16.pack(message.api_key) + message.encode(_key_version(type(message)))


def decode_key(data: Data, log: str = "__consumer_offsets") -> Message:
    """Decode a key of `__consumer_offsets` or `__transaction_state`.

    Raises:
        UnknownRecordTypeError: the type is unknown.
        ProtocolError: the bytes are malformed.
    """
    kind = _coordinator_messages(log).get(("Key", _prefix(data)))
    if kind is None:
        raise UnknownRecordTypeError(_prefix(data), log)
    return kind.decode(memoryview(data)[_INT16.size :], _key_version(kind))


def value_type(key: Message) -> type[Message]:
    """Return the class of the values for a key.

    Raises:
        ProtocolError: the message is not a key.
    """
    from kclient.protocol import lookup

    name = key.message_name.removesuffix("Key")
    if name == key.message_name:
        raise ProtocolError(f"{name} is not a key")
    return lookup(f"{name}Value")


def encode_versioned(message: Message, version: int) -> bytes:
    """Encode a coordinator's value, or data of the consumer protocol: the version, then the message.

    Raises:
        ProtocolError: the version cannot carry the message.
    """
    return _INT16.pack(version) + message.encode(version)


def decode_versioned(kind: type[M], data: Data) -> M:
    """Decode the result of `encode_versioned`.

    Raises:
        ProtocolError: the bytes are malformed, or the version is unknown.
    """
    return kind.decode(memoryview(data)[_INT16.size :], _prefix(data))


def _prefix(data: Data) -> int:
    if len(data) < _INT16.size:
        raise ProtocolError("the bytes end within the version at their beginning")
    number: int = _INT16.unpack_from(data)[0]
    return number


def _key_version(kind: type[Message]) -> int:
    # A key has only one form: in Kafka's declarations its only version is 0, whatever its type.
    return kind.min_version


def _coordinator_messages(log: str) -> dict[tuple[str, int], type[Message]]:
    if log == "__transaction_state":
        return _messages("transaction_state")
    return _messages("consumer_offsets", "share_groups", "streams_groups")


@cache
def _messages(*modules: str) -> dict[tuple[str, int], type[Message]]:
    """Return the messages of modules, by the end of their names and their types."""
    found = {}
    for name in modules:
        module = importlib.import_module(f"kclient.protocol.messages.records.{name}")
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, Message) and kind.__module__ == module.__name__:
                found[next(end for end in ("Key", "Value", "Record") if kind.__name__.endswith(end)), kind.api_key] = (
                    kind
                )
    return found
