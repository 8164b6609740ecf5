"""SCRAM credentials in the metadata log: changes of them, and what `format --add-scram` writes.

Checks and messages are Kafka's. Elsewhere: logins with them (`refbroker.security.sasl`). Source: KIP-554, KIP-900,
Kafka's ScramControlManager, ScramImage and ScramParser.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Iterable

from kclient.errors import (
    ConfigError,
    DuplicateResourceError,
    KafkaError,
    ResourceNotFoundError,
    UnacceptableCredentialError,
    UnsupportedSaslMechanismError,
    UnsupportedVersionError,
)
from kclient.protocol import Message
from kclient.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kclient.protocol.messages.records.metadata_log import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from kclient.security.scram import MECHANISMS, MIN_ITERATIONS, ScramMechanism, credential_of, new_salt, salted_password
from refbroker.metadata.image import ClusterImage
from refbroker.metadata.versions import SCRAM

MAX_ITERATIONS = 16_384
_BY_TYPE = {mechanism.type: mechanism for mechanism in MECHANISMS.values()}

Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion


def plan_changes(
    image: ClusterImage, deletions: Iterable[Deletion], upsertions: Iterable[Upsertion]
) -> dict[str, list[Message] | KafkaError]:
    """Return the records of each user's change, or why it is refused."""
    results: dict[str, list[Message] | KafkaError] = {}
    changes: list[Deletion | Upsertion] = [*deletions, *upsertions]
    for change in changes:
        name = change.name
        if isinstance(results.get(name), KafkaError):
            continue
        if name in results:
            results[name] = DuplicateResourceError("A user credential cannot be altered twice in the same request")
            continue
        try:
            results[name] = [_deletion(image, change) if isinstance(change, Deletion) else _upsertion(image, change)]
        except KafkaError as error:
            results[name] = error
    return results


def _deletion(image: ClusterImage, deletion: Deletion) -> Message:
    mechanism = _check(image, deletion)
    if (mechanism.type, deletion.name) not in image.scram:
        raise ResourceNotFoundError("Attempt to delete a user credential that does not exist")
    return RemoveUserScramCredentialRecord(name=deletion.name, mechanism=mechanism.type)


def _upsertion(image: ClusterImage, upsertion: Upsertion) -> Message:
    mechanism = _check(image, upsertion)
    if upsertion.iterations < MIN_ITERATIONS:
        raise UnacceptableCredentialError("Too few iterations")
    if upsertion.iterations > MAX_ITERATIONS:
        raise UnacceptableCredentialError("Too many iterations")
    return _record(
        mechanism, upsertion.name, bytes(upsertion.salted_password), bytes(upsertion.salt), upsertion.iterations
    )


def _check(image: ClusterImage, change: Deletion | Upsertion) -> ScramMechanism:
    if image.metadata_version < SCRAM:
        raise UnsupportedVersionError("The current metadata.version does not support SCRAM")
    if not change.name:
        raise UnacceptableCredentialError("Username must not be empty")
    mechanism = _BY_TYPE.get(change.mechanism)
    if mechanism is None:
        raise UnsupportedSaslMechanismError("Unknown SCRAM mechanism")
    return mechanism


def credential_record(
    mechanism: ScramMechanism, user: str, password: str, iterations: int = MIN_ITERATIONS
) -> UserScramCredentialRecord:
    """Return the record of a new password, with a random salt."""
    salt = new_salt()
    return _record(mechanism, user, salted_password(mechanism, password, salt, iterations), salt, iterations)


def _record(
    mechanism: ScramMechanism, user: str, salted: bytes, salt: bytes, iterations: int
) -> UserScramCredentialRecord:
    credential = credential_of(mechanism, salted, salt, iterations)
    return UserScramCredentialRecord(
        name=user,
        mechanism=mechanism.type,
        salt=salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=iterations,
    )


def parse_credential(text: str) -> UserScramCredentialRecord:
    """Return the record of an argument of `format --add-scram`.

    Parameters:
        text: `MECHANISM=[name=USER,password=PASSWORD]`, with `iterations` and `salt` if wanted, or with `salt` and
            `saltedpassword` in place of the password; salts are base64.

    Raises:
        ConfigError: the text has another form; the message does not quote passwords.
    """
    name, equals, rest = text.strip().partition("=")
    if not equals:
        raise ConfigError("--add-scram takes MECHANISM=[name=USER,password=PASSWORD]")
    mechanism = MECHANISMS.get(name)
    if mechanism is None:
        raise ConfigError(f"The add-scram mechanism {name} is not supported.")
    if not rest.startswith("["):
        raise ConfigError("Expected configuration string to start with [")
    if not rest.endswith("]"):
        raise ConfigError("Expected configuration string to end with ]")
    parts = dict(map(_component, rest[1:-1].split(",")))
    user, password, salted = (parts.pop(key, None) for key in ("name", "password", "saltedpassword"))
    salt = _decoded(parts.pop("salt", None), "salt")
    iterations = _iterations(parts.pop("iterations", None), mechanism)
    if parts:
        raise ConfigError(f"Unknown SCRAM configurations: {', '.join(sorted(parts))}")
    if user is None:
        raise ConfigError("You must supply 'name' to add-scram")
    if password is None and salted is None:
        raise ConfigError("You must supply one of 'password' or 'saltedpassword' to add-scram")
    if password is None and salt is None:
        raise ConfigError("You must supply 'salt' with 'saltedpassword' to add-scram")
    salt = new_salt() if salt is None else salt
    if password is not None:
        return _record(mechanism, user, salted_password(mechanism, password, salt, iterations), salt, iterations)
    return _record(mechanism, user, _decoded(salted, "saltedPassword") or b"", salt, iterations)


def _component(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigError("No equals sign found in a component of --add-scram")
    quoted = len(value) >= 2 and value[0] == value[-1] == '"'
    return name, value[1:-1] if quoted else value


def _decoded(text: str | None, what: str) -> bytes | None:
    try:
        return None if text is None else b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError(f"Failed to decode given {what}") from None


def _iterations(text: str | None, mechanism: ScramMechanism) -> int:
    if text is None:
        return MIN_ITERATIONS
    if not text.isdecimal():
        raise ConfigError(f"Failed to parse iterations count: {text}")
    count = int(text)
    if not MIN_ITERATIONS <= count <= MAX_ITERATIONS:
        limit = f">= {MIN_ITERATIONS}" if count < MIN_ITERATIONS else f"<= {MAX_ITERATIONS}"
        raise ConfigError(f"The 'iterations' value must be {limit} for add-scram using {mechanism.name}")
    return count
