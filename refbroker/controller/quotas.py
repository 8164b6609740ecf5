"""Changes of client quotas: their checks and records.

Checks and messages are Kafka's. Elsewhere: the kinds of entities and of quotas (`refbroker.metadata.quotas`), lookups
of host names (`refbroker.runtime.addresses`). Source: KIP-546, KIP-612, Kafka's ClientQuotaControlManager.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kclient.errors import InvalidRequestError, KafkaError, PolicyViolationError
from kclient.protocol import Message
from kclient.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from kclient.protocol.messages.records.metadata_log import ClientQuotaRecord
from refbroker.metadata.image import ClusterImage
from refbroker.metadata.quotas import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    Entity,
)
from refbroker.runtime.addresses import java_address

MOST_RECORDS = 10_000
_LARGEST = {PRODUCER_BYTE_RATE: (2**63 - 1, "LONG"), CONSUMER_BYTE_RATE: (2**63 - 1, "LONG")}
_CLIENT_KEYS = {PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE}
_IP_LARGEST = {CONNECTION_CREATION_RATE: (2**31 - 1, "INT")}


def entity_of(entry: AlterClientQuotasRequest.EntryData) -> Entity:
    """Return the entity that an entry of a request names."""
    return frozenset((part.entity_type, part.entity_name) for part in entry.entity)


def host_names(entries: Iterable[AlterClientQuotasRequest.EntryData]) -> set[str]:
    """Return the host names in the entities of a request, which have to be looked up."""
    names = {name for entry in entries for kind, name in entity_of(entry) if kind == IP and name}
    return {name for name in names if java_address(name) is None}


def plan_changes(
    image: ClusterImage, entries: Iterable[AlterClientQuotasRequest.EntryData], hosts: Collection[str] = ()
) -> tuple[list[Message], dict[Entity, KafkaError | None]]:
    """Return the records that make the changes, and the error of each entity.

    Parameters:
        hosts: the host names that have an address.

    Raises:
        PolicyViolationError: the request would write more than 10,000 records.
    """
    records: list[Message] = []
    results: dict[Entity, KafkaError | None] = {}
    for entry in entries:
        entity = entity_of(entry)
        changes: dict[str, float | None] = {}
        for operation in entry.ops:
            if operation.key in changes:
                results[entity] = InvalidRequestError(
                    f"Duplicate quota key {operation.key} not updating quota for this entity {_written(entity)}"
                )
            changes.setdefault(operation.key, None if operation.remove else operation.value)
        if entity in results:
            results[entity] = InvalidRequestError(f"Ignoring duplicate entity {_written(entity)}")
            continue
        try:
            planned = _plan_entity(image, entity, changes, hosts)
        except InvalidRequestError as error:
            results[entity] = error
        else:
            results[entity] = None
            records += planned
    if len(records) > MOST_RECORDS:
        raise PolicyViolationError("Unable to perform excessively large batch operation.")
    return records, results


def _plan_entity(
    image: ClusterImage, entity: Entity, changes: Mapping[str, float | None], hosts: Collection[str]
) -> list[Message]:
    limits = _limits(entity, hosts)
    records: list[Message] = []
    for key, value in changes.items():
        current = image.quotas.get((entity, key))
        if value is not None:
            _check_value(limits, key, value)
            if current is None or current.value != value:
                records.append(_record(entity, key, value))
        elif current is not None:
            records.append(_record(entity, key, None))
    return records


def _record(entity: Entity, key: str, value: float | None) -> ClientQuotaRecord:
    parts = [ClientQuotaRecord.EntityData(entity_type=kind, entity_name=name) for kind, name in sorted(entity, key=str)]
    return ClientQuotaRecord(entity=parts, key=key, value=value or 0.0, remove=value is None)


def _limits(entity: Entity, hosts: Collection[str]) -> dict[str, tuple[int, str] | None]:
    """Return the keys that an entity may have, with the largest value and its type if that is an integer.

    Raises:
        InvalidRequestError: no entity like this can have quotas.
    """
    if not entity:
        raise InvalidRequestError("Invalid empty client quota entity")
    names: dict[str, str | None] = {}
    for kind, name in entity:
        if kind in names:
            raise InvalidRequestError(f"Invalid client quota entity, duplicate entity entry {kind}")
        if kind not in (USER, CLIENT_ID, IP):
            raise InvalidRequestError(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise InvalidRequestError(f"Empty {kind} not supported")
        names[kind] = name
    if IP not in names:
        return {key: _LARGEST.get(key) for key in _CLIENT_KEYS}
    if len(names) > 1:
        raise InvalidRequestError(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
        )
    address = names[IP]
    if address is not None and java_address(address) is None and address not in hosts:
        raise InvalidRequestError(f"{address} is not a valid IP or resolvable host.")
    return dict(_IP_LARGEST)


def _check_value(limits: Mapping[str, tuple[int, str] | None], key: str, value: float) -> None:
    """Raise if an entity cannot have a quota.

    Raises:
        InvalidRequestError: its key does not exist, or its value is out of range.
    """
    if key not in limits:
        raise InvalidRequestError(f"Invalid configuration key {key}")
    if value <= 0.0:
        raise InvalidRequestError(f"Quota {key} must be greater than 0")
    limit = limits[key]
    if limit is None:
        return
    largest, kind = limit
    if value > largest:
        raise InvalidRequestError(f"Proposed value for {key} is too large for a {kind}.")
    if value % 1.0 > 1e-6:
        raise InvalidRequestError(f"{key} cannot be a fractional value.")


def _written(entity: Entity) -> str:
    parts = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in sorted(entity, key=str))
    return f"ClientQuotaEntity(entries={{{parts}}})"
