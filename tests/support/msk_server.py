"""The broker's side of AWS_MSK_IAM, as Amazon MSK has it: checks the signature of a client's message.

It makes the canonical request of the fields of the message, and knows nothing of how a client makes it. It checks
presigned URLs as well, which are the tokens of Amazon's signer for OAUTHBEARER.
"""

from __future__ import annotations

import calendar
import hashlib
import hmac
import json
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable, Generator, Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, urlsplit

from kclient.errors import SaslAuthenticationError
from refbroker.security.sasl import Login

RESPONSE = b'{"version":"2020_10_22","request-id":"4d8c3aa1"}'


class Account(NamedTuple):
    """A user with its keys."""

    user: str
    secret_key: str
    token: str | None = None


class MskVerifier:
    """Checks signatures.

    Parameters:
        accounts: by access key.
        region: of the cluster.
        clock: seconds since the epoch.
    """

    def __init__(
        self, accounts: Mapping[str, Account], region: str = "eu-west-1", clock: Callable[[], float] = time.time
    ) -> None:
        self._accounts = accounts
        self._region = region
        self._clock = clock

    def check_message(self, message: bytes) -> str:
        """Return the user of a message of AWS_MSK_IAM.

        Raises:
            SaslAuthenticationError: it is malformed, has expired, or was not signed by a known key.
        """
        fields = json.loads(message)
        _require(fields.pop("version", None) == "2020_10_22", "the version")
        _require(bool(fields.pop("user-agent", "")), "the user agent")
        return self._check(fields.pop("host"), fields)

    def check_token(self, token: str) -> tuple[str, int]:
        """Return the user of a token, and when it expires, in milliseconds since the epoch.

        Raises:
            SaslAuthenticationError: see `check_message`.
        """
        url = urlsplit(urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
        query = {name.lower(): value for name, value in parse_qsl(url.query, strict_parsing=True)}
        _require(bool(query.pop("user-agent", "")), "the user agent")
        user = self._check(url.netloc, query)
        return user, int((_signed_at(query["x-amz-date"]) + int(query["x-amz-expires"])) * 1000)

    def _check(self, host: str, fields: dict[str, str]) -> str:
        signature = fields.pop("x-amz-signature")
        access_key, _, scope = fields["x-amz-credential"].partition("/")
        date = fields["x-amz-date"]
        _require(access_key in self._accounts, "the access key")
        account = self._accounts[access_key]
        _require(scope == f"{date[:8]}/{self._region}/kafka-cluster/aws4_request", "the scope")
        _require(fields["action"] == "kafka-cluster:Connect", "the action")
        _require(fields["x-amz-algorithm"] == "AWS4-HMAC-SHA256", "the algorithm")
        _require(fields["x-amz-signedheaders"] == "host", "the signed headers")
        _require(fields.get("x-amz-security-token") == account.token, "the token of the session")
        age = self._clock() - _signed_at(date)
        _require(-300 <= age < int(fields["x-amz-expires"]) <= 900, "the time")
        expected = _sign(account.secret_key, scope, date, _canonical(host, fields))
        _require(hmac.compare_digest(signature, expected), "the signature")
        return account.user


def msk_server(verifier: MskVerifier) -> Generator[bytes, bytes, Login]:
    """Yield an empty message, receive the client's, and return the login with the broker's response."""
    user = verifier.check_message((yield b""))
    return Login(user, RESPONSE)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise SaslAuthenticationError(f"[4d8c3aa1]: Access denied ({what})")


def _signed_at(date: str) -> float:
    return calendar.timegm(time.strptime(date, "%Y%m%dT%H%M%SZ"))


def _canonical(host: str, fields: Mapping[str, str]) -> str:
    names = {"action": "Action", "x-amz-signedheaders": "X-Amz-SignedHeaders"}
    query = {names.get(name, name.title()): value for name, value in fields.items()}
    pairs = [f"{quote(name, safe='')}={quote(query[name], safe='')}" for name in sorted(query)]
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    return "\n".join(("GET", "/", "&".join(pairs), f"host:{host}", "", "host", empty))


def _sign(secret_key: str, scope: str, date: str, canonical: str) -> str:
    day, region, service, terminator = scope.split("/")

    def mac(key: bytes, text: str) -> bytes:
        return hmac.new(key, text.encode(), hashlib.sha256).digest()

    key = mac(mac(mac(mac(f"AWS4{secret_key}".encode(), day), region), service), terminator)
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    return mac(key, f"AWS4-HMAC-SHA256\n{date}\n{scope}\n{hashed}").hex()
