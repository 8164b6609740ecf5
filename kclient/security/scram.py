"""SCRAM (RFC 5802), as Kafka has it: both sides of the exchange, and the keys that a broker stores.

Texts are UTF-8 without SASLprep, as in Kafka, whose brokers take names of ASCII only. Channel binding does not exist. A
side never keeps the password that it does not need: a broker stores two keys, from which nobody can log in. Elsewhere:
SASL on a connection, other mechanisms (`sasl`). Source: KIP-48, KIP-84, KIP-554.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import re
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator
from functools import lru_cache
from typing import NamedTuple

from kclient.errors import SaslAuthenticationError
from kclient.security.refusals import UnexplainedRefusalError
from kclient.security.secret import Secret

MIN_ITERATIONS = 4096
MAX_ITERATIONS = 1_000_000
"""The most that a client computes for a broker: more could only be meant to keep it busy."""
SALT_BITS = 130
"""The size of the number that a salt is made of, as in Kafka."""
_SALT_DIGITS = b"0123456789abcdefghijklmnopqrstuvwxyz"


class ScramMechanism(NamedTuple):
    """A mechanism: its name, its number in the protocol, and its hash function."""

    name: str
    type: int
    hash: str


MECHANISMS = {
    mechanism.name: mechanism
    for mechanism in (ScramMechanism("SCRAM-SHA-256", 1, "sha256"), ScramMechanism("SCRAM-SHA-512", 2, "sha512"))
}
"""The mechanisms by name."""


class ScramCredential(NamedTuple):
    """What a broker stores of a password."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations}, [hidden])"


class ScramAccount(NamedTuple):
    """Who logs in with a name and its password: a user, or the owner of a delegation token.

    Attributes:
        user: the user who has logged in, once the password is verified.
        credential: what is stored of the password.
        is_token: whether the name and the password are those of a delegation token.
        expires_ms: when the token expires, in milliseconds since the epoch; None for a user.
    """

    user: str
    credential: ScramCredential
    is_token: bool = False
    expires_ms: int | None = None


# Possessive, because an attempt to match otherwise takes memory for each character, of messages that nobody has proved
# to be from a user.
_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]++|=2C|=3D)++"
_NONCE = r"[\x21-\x2b\x2d-\x7e]++"
_BASE64 = "[A-Za-z0-9+/]++={0,2}"
_VALUE = r"[\x01-\x2b\x2d-\x7f]++"
_EXTENSION = rf"[A-Za-z]++={_VALUE}"
_EXTENSIONS = rf"(?P<extensions>(?:,{_EXTENSION})*+)"
_CLIENT_FIRST = re.compile(
    rf"n,(?:a=(?P<authzid>{_NAME}))?,(?:m={_VALUE},)?"
    rf"(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE}){_EXTENSIONS})"
)
_SERVER_FIRST = re.compile(
    rf"(?:m=[^,]*,)?r=(?P<nonce>{_NONCE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,9}})(?:,.*)?"
)
_CLIENT_FINAL = re.compile(
    rf"(?P<bare>c={_BASE64},r=(?P<nonce>{_NONCE}))(?:,(?!p=){_EXTENSION})*+,p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL = re.compile(rf"(?:e=(?P<error>[^,]*)|v=(?P<signature>{_BASE64}))(?:,.*)?")


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Return the password as the salt and the iterations make it; slow on purpose."""
    return hashlib.pbkdf2_hmac(mechanism.hash, password.encode(), salt, iterations)


def credential_of(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return what to store of a salted password."""
    client_key = _hmac(mechanism, salted, b"Client Key")
    return ScramCredential(
        salt, iterations, hashlib.new(mechanism.hash, client_key).digest(), _hmac(mechanism, salted, b"Server Key")
    )


def scram_client(
    mechanism: ScramMechanism, user: str, password: Secret, nonce: str, *, is_token: bool = False
) -> Generator[bytes, bytes, None]:
    """Yield the client's messages and receive the server's; the end means that the server knows the password as well.

    Parameters:
        user, password: who logs in; the id and the HMAC of a delegation token.
        nonce: random text.
        is_token: whether they are those of a delegation token.

    Raises:
        SaslAuthenticationError: the server is malformed, refuses, or does not know the password.
    """
    escaped = user.replace("=", "=3D").replace(",", "=2C")
    bare = f"n={escaped},r={nonce}{',tokenauth=true' if is_token else ''}"
    server_first = _text((yield f"n,,{bare}".encode()))
    found = _SERVER_FIRST.fullmatch(server_first)
    if found is None:
        raise SaslAuthenticationError("the broker's first SCRAM message is malformed")
    if not found["nonce"].startswith(nonce) or found["nonce"] == nonce:
        raise SaslAuthenticationError("the broker's SCRAM nonce does not continue that of this client")
    iterations = int(found["iterations"])
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise SaslAuthenticationError(
            f"the broker wants {iterations} iterations of SCRAM; from {MIN_ITERATIONS} to {MAX_ITERATIONS} are allowed"
        )
    salted = _cached_salted_password(mechanism, password, _decoded(found["salt"]), iterations)
    client_key = _hmac(mechanism, salted, b"Client Key")
    final = f"c={b64encode(b'n,,').decode()},r={found['nonce']}"
    signed = f"{bare},{server_first},{final}".encode()
    signature = _hmac(mechanism, hashlib.new(mechanism.hash, client_key).digest(), signed)
    proof = b64encode(_xor(client_key, signature)).decode()
    server_final = _SERVER_FINAL.fullmatch(_text((yield f"{final},p={proof}".encode())))
    if server_final is None:
        raise SaslAuthenticationError("the broker's last SCRAM message is malformed")
    if server_final["error"] is not None:
        raise SaslAuthenticationError(f"the broker refused: {server_final['error']}")
    expected = _hmac(mechanism, _hmac(mechanism, salted, b"Server Key"), signed)
    if not hmac.compare_digest(_decoded(server_final["signature"]), expected):
        raise SaslAuthenticationError(
            "the broker does not know the password; it may not be the one that it claims to be"
        )


def scram_server(
    mechanism: ScramMechanism, account: Callable[[str, bool], ScramAccount], nonce: str
) -> Generator[bytes, bytes, tuple[ScramAccount, bytes]]:
    """Yield the server's messages, after a first empty one, and receive the client's; return the account and the last
    message.

    As in Kafka, the signatures do not cover a reserved extension (`m=`) and those of the last message, so that a client
    that sends them is refused.

    Parameters:
        account: returns the account of a name, the second argument says whether it is the id of a delegation token; a
            made-up account for a name that does not exist, so that nobody learns which names do.
        nonce: random text.

    Raises:
        UnexplainedRefusalError: the client is malformed, or does not know the password.
        SaslAuthenticationError: the client wants to be another user.
    """
    first = _CLIENT_FIRST.fullmatch(_of_client((yield b"")))
    if first is None:
        raise UnexplainedRefusalError("the client's first SCRAM message is malformed")
    user = first["name"].replace("=2C", ",").replace("=3D", "=")
    if first["authzid"] not in (None, user):
        raise SaslAuthenticationError("Authentication failed: Client requested an authorization id that is different "
                                      "from username")  # fmt: skip
    found = account(user, _is_token(first["extensions"]))
    known = found.credential
    both = first["nonce"] + nonce
    server_first = f"r={both},s={b64encode(known.salt).decode()},i={known.iterations}"
    final = _CLIENT_FINAL.fullmatch(_of_client((yield server_first.encode())))
    if final is None:
        raise UnexplainedRefusalError("the client's last SCRAM message is malformed")
    if final["nonce"] != both:
        raise UnexplainedRefusalError("the client's last SCRAM message has another nonce")
    signed = f"{first['bare']},{server_first},{final['bare']}".encode()
    signature = _hmac(mechanism, known.stored_key, signed)
    try:
        proof = b64decode(final["proof"], validate=True)
    except ValueError:
        raise UnexplainedRefusalError("the proof of the client is no base64") from None
    client_key = _xor(proof, signature) if len(proof) == len(signature) else b""
    if not hmac.compare_digest(hashlib.new(mechanism.hash, client_key).digest(), known.stored_key):
        raise UnexplainedRefusalError(f"the password of {user!r} is wrong, or there is no such user")
    return found, f"v={b64encode(_hmac(mechanism, known.server_key, signed)).decode()}".encode()


def new_salt() -> bytes:
    """Return a random salt."""
    return salt_of(secrets.randbits(SALT_BITS))


def salt_of(number: int) -> bytes:
    """Return a salt as Kafka makes it of a number: letters and digits, so that nobody can tell who has made a user."""
    number &= 2**SALT_BITS - 1
    digits = bytearray()
    while number or not digits:
        number, digit = divmod(number, len(_SALT_DIGITS))
        digits.append(_SALT_DIGITS[digit])
    return bytes(reversed(digits))


def _is_token(extensions: str) -> bool:
    """Return whether the extensions in a client's first message say that it logs in with a delegation token."""
    found = dict(extension.split("=", 1) for extension in extensions.split(",")[1:])
    return found.get("tokenauth", "").lower() == "true"


@lru_cache(maxsize=64)
def _cached_salted_password(mechanism: ScramMechanism, password: Secret, salt: bytes, iterations: int) -> bytes:
    return salted_password(mechanism, password.reveal(), salt, iterations)


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise SaslAuthenticationError("a SCRAM message is not UTF-8") from None


def _of_client(message: bytes) -> str:
    # What is not UTF-8 matches no pattern, as in Kafka.
    return message.decode(errors="replace")


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise SaslAuthenticationError("a SCRAM message contains invalid base64") from None


def _hmac(mechanism: ScramMechanism, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, mechanism.hash)


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
