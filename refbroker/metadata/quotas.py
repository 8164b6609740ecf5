"""Client quotas in the metadata log: checks and records of changes, and the filters that select quotas.

Checks and messages are Kafka's. Elsewhere: enforcement (`refbroker.quotas`, `refbroker.server.address_limits`), lookups
of host names (`refbroker.runtime.addresses`). Source: KIP-546, KIP-612, Kafka's ClientQuotaControlManager and
ClientQuotasImage.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from kclient.errors import InvalidRequestError, KafkaError, PolicyViolationError, UnsupportedVersionError
from kclient.protocol import Message
from kclient.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from kclient.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from kclient.protocol.messages.records.metadata_log import ClientQuotaRecord
from refbroker.metadata.image import ClusterImage
from refbroker.runtime.addresses import java_address

USER, CLIENT_ID, IP = "user", "client-id", "ip"
PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"

MOST_RECORDS = 10_000
_LARGEST = {PRODUCER_BYTE_RATE: (2**63 - 1, "LONG"), CONSUMER_BYTE_RATE: (2**63 - 1, "LONG")}
_CLIENT_KEYS = {PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE}
_IP_LARGEST = {CONNECTION_CREATION_RATE: (2**31 - 1, "INT")}

Entity = frozenset[tuple[str, str | None]]
"""The types and names of an entity; the name None is the default of its type."""


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


_EXACT, _DEFAULT, _SPECIFIED = 0, 1, 2


class QuotaFilter(NamedTuple):
    """The filter of a DescribeClientQuotas request.

    Attributes:
        exact: names by type; None is the default.
        specified: types of which every name matches.
        strict: whether an entity with other types does not match.
    """

    exact: dict[str, str | None]
    specified: set[str]
    strict: bool

    @classmethod
    def from_request(cls, request: DescribeClientQuotasRequest) -> QuotaFilter:
        """Return the filter.

        Raises:
            InvalidRequestError: components contradict each other.
            UnsupportedVersionError: a type does not exist.
        """
        found = cls({}, set(), request.strict)
        for component in request.components:
            found._add(component.entity_type, component.match_type, component.match)
        types = found.exact.keys() | found.specified
        if IP in types and types & {USER, CLIENT_ID}:
            raise InvalidRequestError(
                "Invalid entity filter component combination. IP filter component should not be used with user or "
                "clientId filter component."
            )
        return found

    def _add(self, kind: str, match_type: int, match: str | None) -> None:
        if not kind:
            raise InvalidRequestError("Invalid empty entity type.")
        if kind in self.exact or kind in self.specified:
            raise InvalidRequestError(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in (USER, CLIENT_ID, IP):
            raise UnsupportedVersionError(f"Unsupported entity type {kind}")
        if match_type == _EXACT:
            if match is None:
                raise InvalidRequestError("Request specified MATCH_TYPE_EXACT, but set match string to null.")
            self.exact[kind] = match
            return
        if match_type not in (_DEFAULT, _SPECIFIED):
            raise InvalidRequestError(f"Unknown match type {match_type}")
        if match is not None:
            name = "DEFAULT" if match_type == _DEFAULT else "SPECIFIED"
            raise InvalidRequestError(f"Request specified MATCH_TYPE_{name}, but also specified a match string.")
        if match_type == _DEFAULT:
            self.exact[kind] = None
        else:
            self.specified.add(kind)

    def matches(self, entity: Entity) -> bool:
        """Return whether the filter selects an entity."""
        names = dict(entity)
        if self.strict and len(names) != len(self.exact) + len(self.specified):
            return False
        return all(kind in names and names[kind] == name for kind, name in self.exact.items()) and all(
            kind in names for kind in self.specified
        )
