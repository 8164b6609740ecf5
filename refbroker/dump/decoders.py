"""Decoders of record keys and values: as text, or as the messages of Kafka's internal topics.

For a record that cannot be decoded, an error text replaces the key or value, as in Kafka's tool, and the dump
continues.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kclient.errors import ProtocolError
from kclient.protocol import Message
from kclient.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kclient.protocol.log_records import (
    UnknownRecordTypeError,
    decode_key,
    decode_metadata_record,
    decode_versioned,
    value_type,
)
from kclient.protocol.wire import read_uvarint
from refbroker.dump.kafka_json import as_json
from refbroker.dump.secrets import hide_secrets

Decoded = dict[str, Any]
"""`key` and `payload`, each a text or JSON; a missing key or value has no item."""
Decoder = Callable[[Any], Decoded]

TOMBSTONE = "<DELETE>"
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def decode_text(record: Any) -> Decoded:
    """Decode key and value as UTF-8."""
    shown = {"key": record.key, "payload": record.value}
    return {name: bytes(data).decode("utf-8", "replace") for name, data in shown.items() if data is not None}


def decode_cluster_metadata(record: Any) -> Decoded:
    """Decode a record of `__cluster_metadata`, which has no key."""
    value = record.value or b""
    try:
        message = decode_metadata_record(value)
        version = _metadata_version(value)
        data = hide_secrets(message, as_json(message, version))
        payload: Any = {"type": record_type(message), "version": version, "data": data}
    except ProtocolError as error:
        payload = f"Error at {record.offset}, skipping. {error}"
    return {"payload": payload}


def record_type(message: Message) -> str:
    """Return Kafka's name of the type of a metadata record, such as TOPIC_RECORD."""
    return _WORD_START.sub("_", message.message_name).upper()


def _metadata_version(data: bytes) -> int:
    position = 0
    for _ in range(3):
        number, position = read_uvarint(data, position)
    return int(number)


def decode_consumer_offsets(record: Any) -> Decoded:
    """Decode a record of `__consumer_offsets`, including the subscriptions and assignments of classic group members."""
    decoded = _decode_coordinator_record(record, "__consumer_offsets")
    payload = decoded.get("payload")
    if isinstance(payload, dict) and payload["data"].get("protocolType") == "consumer":
        for member in payload["data"].get("members", ()):
            _decode_member_field(member, "subscription", ConsumerProtocolSubscription)
            _decode_member_field(member, "assignment", ConsumerProtocolAssignment)
    return decoded


def decode_transaction_state(record: Any) -> Decoded:
    """Decode a record of `__transaction_state`."""
    return _decode_coordinator_record(record, "__transaction_state")


def _decode_coordinator_record(record: Any, topic: str) -> Decoded:
    if record.key is None:
        return {"key": f"Error at offset {record.offset}, skipping. The record has no key"}
    try:
        key = decode_key(record.key, topic)
        decoded = {"key": {"type": str(key.api_key), "data": as_json(key, type(key).min_version)}}
        if record.value is None:
            return decoded | {"payload": TOMBSTONE}
        version = int.from_bytes(record.value[:2], "big", signed=True)
        value = decode_versioned(value_type(key), record.value)
        return decoded | {"payload": {"version": str(version), "data": as_json(value, version)}}
    except UnknownRecordTypeError as error:
        return {"key": f"Unknown record type {error.record_type} at offset {record.offset}, skipping."}
    except ProtocolError as error:
        return {"key": f"Error at offset {record.offset}, skipping. {error}"}


def _decode_member_field(member: dict[str, Any], name: str, kind: type[Message]) -> None:
    """Replace the bytes of a member's field by the decoded message; bytes of another protocol stay as they are."""
    try:
        data = base64.b64decode(member[name])
        version = int.from_bytes(data[:2], "big", signed=True)
        member[name] = as_json(decode_versioned(kind, data), version)
    except (ProtocolError, KeyError, TypeError, binascii.Error):
        return


DECODERS: dict[str, Decoder] = {
    "text": decode_text,
    "cluster-metadata": decode_cluster_metadata,
    "offsets": decode_consumer_offsets,
    "transaction-log": decode_transaction_state,
}
_TOPICS = {
    "__cluster_metadata": "cluster-metadata",
    "__consumer_offsets": "offsets",
    "__transaction_state": "transaction-log",
}


def decoder_for(name: str | None, path: Path) -> Decoder:
    """Return the decoder called `name`, or if it is None the one for the topic or snapshot that `path` belongs to."""
    if name is None:
        topic = path.absolute().parent.name.rpartition("-")[0]
        name = "cluster-metadata" if ".checkpoint" in path.name else _TOPICS.get(topic, "text")
    return DECODERS[name]
