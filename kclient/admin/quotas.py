"""Client quotas: describe and alter them (KIP-546)."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kclient.admin.arguments import instance, mapping, optional, text
from kclient.admin.core import AdminCore, Outcomes
from kclient.errors import ConfigError, error_from_code, raise_for_code
from kclient.net.deadline import Deadline
from kclient.net.manager import ANY_NODE
from kclient.net.operation import Operation
from kclient.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from kclient.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse

_TYPES = {"user": "user", "client_id": "client-id", "ip": "ip"}
"""The types of entities on the wire, by the names of the fields here."""
_EXACT, _DEFAULT, _ANY = 0, 1, 2


class QuotaEntity(msgspec.Struct, frozen=True):
    """The clients that a quota applies to: a user, a client id, both together, or an IP address.

    Parameters:
        user: the name of the user; "" is the default of all users without a quota of their own.
        client_id: the client id; "" is the default of all client ids.
        ip: the IP address; "" is the default of all addresses.

    Raises:
        ConfigError: no field is given, or an address together with another field.
    """

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    def __post_init__(self) -> None:
        given = {name: value for name in _TYPES if (value := getattr(self, name)) is not None}
        for name, value in given.items():
            text(value, f"QuotaEntity({name}=)")
        if not given or ("ip" in given and len(given) > 1):
            raise ConfigError("a quota is for a user, a client id, both together, or an IP address")

    def __str__(self) -> str:
        return ", ".join(
            f"{name} {value or '(default)'}"
            for field, name in _TYPES.items()
            if (value := getattr(self, field)) is not None
        )


class QuotaMatch(enum.Enum):
    """What a field of a `QuotaFilter` matches besides one name."""

    ANY = "any"
    """Every entity that has the field: every name, and the default."""


class QuotaFilter(msgspec.Struct, frozen=True):
    """A filter that selects quotas by their entities.

    Parameters:
        user, client_id, ip: a name, "" for the default, or `QuotaMatch.ANY`; None ignores the field.
        strict: whether to skip entities that also have fields other than the given ones.
    """

    user: str | QuotaMatch | None = None
    client_id: str | QuotaMatch | None = None
    ip: str | QuotaMatch | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        for name in _TYPES:
            value = getattr(self, name)
            if value is not None and not isinstance(value, QuotaMatch):
                text(value, f"QuotaFilter({name}=)")
        instance(self.strict, bool, "QuotaFilter(strict=)")


def describe_client_quotas(
    core: AdminCore, wanted: QuotaFilter | None, deadline: Deadline
) -> Operation[dict[QuotaEntity, dict[str, float]]]:
    chosen = optional(wanted, QuotaFilter, deadline.name) or QuotaFilter()
    components = [
        DescribeClientQuotasRequest.ComponentData(entity_type=kind, **_match(value))
        for field, kind in _TYPES.items()
        if (value := getattr(chosen, field)) is not None
    ]

    def attempt() -> Operation[dict[QuotaEntity, dict[str, float]]]:
        answer: DescribeClientQuotasResponse = yield from core.request(
            ANY_NODE,
            DescribeClientQuotasRequest,
            lambda version: DescribeClientQuotasRequest(components=components, strict=chosen.strict),
            deadline,
        )
        raise_for_code(answer.error_code, answer.error_message)
        return {
            _entity(entry.entity): {each.key: each.value for each in sorted(entry.values, key=lambda each: each.key)}
            for entry in answer.entries or ()
        }

    return (yield from core.retry(attempt, deadline))


def alter_client_quotas(
    core: AdminCore,
    changes: Mapping[QuotaEntity, Mapping[str, float | None]],
    validate_only: bool,
    deadline: Deadline,
) -> Operation[dict[QuotaEntity, None]]:
    wanted = mapping(
        changes,
        lambda entity, what: instance(entity, QuotaEntity, what),
        lambda quotas, what: mapping(quotas, text, _limit, what),
        deadline.name,
    )

    def attempt(pending: list[QuotaEntity]) -> Operation[Outcomes[QuotaEntity, None]]:
        request = AlterClientQuotasRequest(
            entries=[
                AlterClientQuotasRequest.EntryData(
                    entity=[
                        AlterClientQuotasRequest.EntityData(entity_type=kind, entity_name=value or None)
                        for field, kind in _TYPES.items()
                        if (value := getattr(entity, field)) is not None
                    ],
                    ops=[
                        AlterClientQuotasRequest.OpData(key=key, value=limit or 0.0, remove=limit is None)
                        for key, limit in wanted[entity].items()
                    ],
                )
                for entity in pending
            ],
            validate_only=validate_only,
        )
        answer: AlterClientQuotasResponse = yield from core.request_until_answered(
            core.controller(), AlterClientQuotasRequest, lambda version: request, deadline
        )
        return {
            _entity(entry.entity): error_from_code(entry.error_code, entry.error_message) if entry.error_code else None
            for entry in answer.entries
        }

    return (yield from core.keyed(wanted, attempt, deadline))


def _limit(given: object, what: str) -> float | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise TypeError(f"{what} takes a number, or None to remove a quota, not {given!r}")
    return float(given)


def _match(value: str | QuotaMatch) -> dict[str, Any]:
    if isinstance(value, QuotaMatch):
        return {"match_type": _ANY, "match": None}
    return {"match_type": _EXACT, "match": value} if value else {"match_type": _DEFAULT, "match": None}


def _entity(
    parts: Iterable[DescribeClientQuotasResponse.EntityData | AlterClientQuotasResponse.EntityData],
) -> QuotaEntity:
    names = {part.entity_type: part.entity_name or "" for part in parts}
    return QuotaEntity(names.get("user"), names.get("client-id"), names.get("ip"))
