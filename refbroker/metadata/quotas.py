"""Client quotas in the metadata: the kinds of entities and of quotas, and the filters that select quotas.

Messages are Kafka's. Elsewhere: changes (`refbroker.controller.quotas`), enforcement (`refbroker.quotas`,
`refbroker.server.address_limits`). Source: KIP-546, KIP-612, Kafka's ClientQuotasImage.
"""

from __future__ import annotations

from typing import NamedTuple

from kclient.errors import InvalidRequestError, UnsupportedVersionError
from kclient.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest

USER, CLIENT_ID, IP = "user", "client-id", "ip"
PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"

Entity = frozenset[tuple[str, str | None]]
"""The types and names of an entity; the name None is the default of its type."""


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
