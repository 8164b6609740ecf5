"""The credentials of users who log in by SCRAM: describe, set and delete them (KIP-554).

The password stays in the client: the request contains a salt, and the password hashed with that salt.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kclient.admin.arguments import number, optional, several, text
from kclient.admin.core import AdminCore, Outcomes
from kclient.errors import ConfigError, error_from_code, raise_for_code
from kclient.net.deadline import Deadline
from kclient.net.operation import Operation
from kclient.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from kclient.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from kclient.security.scram import MECHANISMS, MIN_ITERATIONS, ScramMechanism, new_salt, salted_password
from kclient.security.secret import Secret

_NAMES = {mechanism.type: mechanism.name for mechanism in MECHANISMS.values()}


class ScramCredentialInfo(msgspec.Struct, frozen=True):
    """A stored credential: its mechanism, such as "SCRAM-SHA-512", and its iterations."""

    mechanism: str
    iterations: int


class ScramAlteration(msgspec.Struct, frozen=True):
    """A change of the credentials of one user: a `ScramUpsertion` or a `ScramDeletion`."""

    user: str


class ScramUpsertion(ScramAlteration, frozen=True):
    """A credential to store; it replaces the user's credential for the same mechanism.

    Parameters:
        user: the name of the user.
        password: the password; the broker does not receive it.
        mechanism: "SCRAM-SHA-256" or "SCRAM-SHA-512".
        iterations: how often the password is hashed; brokers accept 4096 to 16384.
        salt: the salt; None is a random one.

    Raises:
        ConfigError: the mechanism does not exist.
    """

    password: str | Secret
    mechanism: str = "SCRAM-SHA-512"
    iterations: int = MIN_ITERATIONS
    salt: bytes | None = None

    def __post_init__(self) -> None:
        text(self.user, "ScramUpsertion(user=)")
        if not isinstance(self.password, Secret):
            # The type of the error must not show the value.
            if not isinstance(self.password, str):
                raise TypeError(f"ScramUpsertion(password=) takes a str, not a {type(self.password).__name__}")
            msgspec.structs.force_setattr(self, "password", Secret(self.password))
        _mechanism(self.mechanism)
        number(self.iterations, "ScramUpsertion(iterations=)")
        optional(self.salt, bytes, "ScramUpsertion(salt=)")

    def __repr__(self) -> str:
        return f"ScramUpsertion({self.user!r}, {self.mechanism}, iterations={self.iterations}, [hidden])"


class ScramDeletion(ScramAlteration, frozen=True):
    """A credential to delete.

    Parameters:
        user: the name of the user.
        mechanism: "SCRAM-SHA-256" or "SCRAM-SHA-512".

    Raises:
        ConfigError: the mechanism does not exist.
    """

    mechanism: str = "SCRAM-SHA-512"

    def __post_init__(self) -> None:
        text(self.user, "ScramDeletion(user=)")
        _mechanism(self.mechanism)


def describe_user_scram_credentials(
    core: AdminCore, users: str | Iterable[str] | None, deadline: Deadline
) -> Operation[dict[str, tuple[ScramCredentialInfo, ...]]]:
    def ask(names: list[str] | None) -> Operation[DescribeUserScramCredentialsResponse]:
        wanted = None if names is None else [DescribeUserScramCredentialsRequest.UserName(name=name) for name in names]
        answer: DescribeUserScramCredentialsResponse = yield from core.request(
            core.controller(),
            DescribeUserScramCredentialsRequest,
            lambda version: DescribeUserScramCredentialsRequest(users=wanted),
            deadline,
        )
        raise_for_code(answer.error_code, answer.error_message)
        return answer

    def attempt(names: list[str]) -> Operation[Outcomes[str, tuple[ScramCredentialInfo, ...]]]:
        answer = yield from core.retry(lambda: ask(names), deadline)
        return {
            found.user: error_from_code(found.error_code, found.error_message)
            if found.error_code
            else _described(found)
            for found in answer.results
        }

    if users is not None:
        return (yield from core.keyed(several(users, str, deadline.name), attempt, deadline))
    answer = yield from core.retry(lambda: ask(None), deadline)
    return {found.user: _described(found) for found in sorted(answer.results, key=lambda found: found.user)}


def alter_user_scram_credentials(
    core: AdminCore, alterations: ScramAlteration | Iterable[ScramAlteration], deadline: Deadline
) -> Operation[dict[str, None]]:
    by_user: dict[str, list[ScramAlteration]] = {}
    for alteration in several(alterations, ScramAlteration, deadline.name):
        by_user.setdefault(alteration.user, []).append(alteration)

    def attempt(users: list[str]) -> Operation[Outcomes[str, None]]:
        pending = [alteration for user in users for alteration in by_user[user]]
        request = AlterUserScramCredentialsRequest(
            deletions=[
                AlterUserScramCredentialsRequest.ScramCredentialDeletion(
                    name=each.user, mechanism=_mechanism(each.mechanism).type
                )
                for each in pending
                if isinstance(each, ScramDeletion)
            ],
            upsertions=[_upsertion(each) for each in pending if isinstance(each, ScramUpsertion)],
        )
        answer: AlterUserScramCredentialsResponse = yield from core.request_until_answered(
            core.controller(), AlterUserScramCredentialsRequest, lambda version: request, deadline
        )
        return {
            result.user: error_from_code(result.error_code, result.error_message) if result.error_code else None
            for result in answer.results
        }

    return (yield from core.keyed(by_user, attempt, deadline))


def _described(
    result: DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult,
) -> tuple[ScramCredentialInfo, ...]:
    return tuple(
        ScramCredentialInfo(_NAMES.get(info.mechanism, "UNKNOWN"), info.iterations) for info in result.credential_infos
    )


def _upsertion(alteration: ScramUpsertion) -> AlterUserScramCredentialsRequest.ScramCredentialUpsertion:
    mechanism = _mechanism(alteration.mechanism)
    salt = new_salt() if alteration.salt is None else alteration.salt
    password = Secret(alteration.password).reveal()
    return AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name=alteration.user,
        mechanism=mechanism.type,
        iterations=alteration.iterations,
        salt=salt,
        salted_password=salted_password(mechanism, password, salt, alteration.iterations),
    )


def _mechanism(name: str) -> ScramMechanism:
    found = MECHANISMS.get(name)
    if found is None:
        raise ConfigError(f"{name!r} is not a mechanism of SCRAM; there are {' and '.join(MECHANISMS)}")
    return found
