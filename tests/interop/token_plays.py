"""One play of requests about delegation tokens, and of logins with them, for two brokers that must answer alike.

The play writes down what a broker answered, without what brokers choose: ids, HMACs and the time. Elsewhere: the
comparison (`test_delegation_tokens`).
"""

from __future__ import annotations

from base64 import b64encode
from contextlib import ExitStack
from typing import Any

from kclient.errors import DelegationTokenExpiredError, DelegationTokenNotFoundError
from kclient.protocol import Message
from kclient.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kclient.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kclient.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kclient.protocol.messages.metadata import MetadataRequest
from kclient.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from kclient.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kclient.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kclient.security.scram import MECHANISMS, scram_client
from kclient.security.secret import Secret
from tests.support.patience import CHANGE
from tests.support.waiting import wait_until
from tests.support.wire import Wire

HOUR_MS = 3_600_000
LONGEST_MS = 2**63 - 1
Renewer = CreateDelegationTokenRequest.CreatableRenewers
Owner = DescribeDelegationTokenRequest.DescribeDelegationTokenOwner


class TokenPlay:
    """One broker and its clients.

    Parameters:
        stack: closes the connections.
        plaintext: the address of a listener without SASL.
        sasl: that of a listener with PLAIN and SCRAM, where each user's password is the name.

    Attributes:
        told: what the broker has answered so far.
        anonymous: a connection without a login.
    """

    def __init__(self, stack: ExitStack, plaintext: str, sasl: str) -> None:
        self.told: list[Any] = []
        self._stack = stack
        self._sasl = sasl
        self.anonymous = stack.enter_context(Wire(plaintext))
        self._users: dict[str, Wire] = {}
        self._names: dict[str, str] = {}

    def user(self, name: str) -> Wire:
        """Return the connection of a user."""
        if name not in self._users:
            wire = self._users[name] = self._stack.enter_context(Wire(self._sasl))
            wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            answer = wire.ask(SaslAuthenticateRequest(auth_bytes=f"\0{name}\0{name}".encode()), 2)
            assert answer.error_code == 0, answer.error_message
        return self._users[name]

    def tell(self, what: str, **found: Any) -> None:
        self.told.append((what, found))

    # Requests

    def create(self, what: str, user: str, version: int = 3, **fields: Any) -> Any:
        """Create a token, write down the answer, and wait until the whole broker knows the token."""
        fields = {"max_lifetime_ms": -1, **fields}
        answer = self.user(user).ask(CreateDelegationTokenRequest(**fields), version)
        self.tell_created(what, answer)
        if answer.error_code == 0:
            self._names[answer.token_id] = what
            wait_until(lambda: answer.token_id in self.all_ids(), CHANGE)
            # Nobody may renew the token by this request, once the controller knows the token as well.
            renewal = RenewDelegationTokenRequest(hmac=answer.hmac, renew_period_ms=-1)
            not_found = DelegationTokenNotFoundError.code
            wait_until(lambda: self.user("carol").ask(renewal, 2).error_code != not_found, CHANGE)
        return answer

    def tell_created(self, what: str, answer: Any) -> None:
        issued = answer.issue_timestamp_ms
        self.tell(
            what,
            error=answer.error_code,
            owner=(answer.principal_type, answer.principal_name),
            requester=(answer.token_requester_principal_type, answer.token_requester_principal_name),
            issued=issued if issued <= 0 else "now",
            expires=answer.expiry_timestamp_ms - max(issued, 0),
            ends=answer.max_timestamp_ms - max(issued, 0),
            sizes=(len(answer.token_id), len(answer.hmac)),
        )

    def renew(self, what: str, user: str, token: Any, period_ms: int, version: int = 2) -> None:
        request = RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=period_ms)
        self._tell_changed(what, self.user(user).ask(request, version), token)

    def expire(self, what: str, user: str, token: Any, period_ms: int, version: int = 2) -> None:
        request = ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=period_ms)
        self._tell_changed(what, self.user(user).ask(request, version), token)

    def _tell_changed(self, what: str, answer: Any, token: Any) -> None:
        """Write down a new time of expiry, as far as it does not depend on that of the request."""
        time = answer.expiry_timestamp_ms
        if time > 0:
            time = "the end" if time == token.max_timestamp_ms else f"earlier: {time < token.max_timestamp_ms}"
        self.tell(what, error=answer.error_code, expires=time)

    def all_ids(self) -> list[str]:
        """Return the ids of all tokens."""
        answer = self.user("root").ask(DescribeDelegationTokenRequest(owners=None), 3)
        return [token.token_id for token in answer.tokens]

    def describe(self, what: str, user: str, owners: list[str] | None, version: int = 3) -> None:
        """Write down which tokens a user sees."""
        wanted = None if owners is None else [Owner(principal_type="User", principal_name=name) for name in owners]
        answer = self.user(user).ask(DescribeDelegationTokenRequest(owners=wanted), version)
        tokens = {
            self._names[token.token_id]: {
                "owner": (token.principal_type, token.principal_name),
                "requester": (token.token_requester_principal_type, token.token_requester_principal_name),
                "renewers": [(each.principal_type, each.principal_name) for each in token.renewers],
                "hmac": len(token.hmac),
            }
            for token in answer.tokens
            if token.token_id in self._names
        }
        self.tell(what, error=answer.error_code, tokens=tokens)

    # Logins

    def log_in(
        self, what: str, name: str, password: str, mechanism: str = "SCRAM-SHA-256", *, is_token: bool = True
    ) -> Wire:
        """Log in by SCRAM on a new connection; write down how that ends."""
        wire = self._stack.enter_context(Wire(self._sasl))
        wire.ask(SaslHandshakeRequest(mechanism=mechanism), 1)
        client = scram_client(MECHANISMS[mechanism], name, Secret(password), "nonce", is_token=is_token)
        message = next(client)
        answer = wire.ask(SaslAuthenticateRequest(auth_bytes=message), 2)
        if answer.error_code == 0:
            answer = wire.ask(SaslAuthenticateRequest(auth_bytes=client.send(answer.auth_bytes)), 2)
        lifetime_ms = answer.session_lifetime_ms
        self.tell(
            what, error=answer.error_code, text=answer.error_message or "", session="limited" if lifetime_ms else None
        )
        return wire

    def log_in_with(self, what: str, token: Any, mechanism: str = "SCRAM-SHA-256") -> Wire:
        """Log in with a token."""
        return self.log_in(what, token.token_id, b64encode(token.hmac).decode(), mechanism)

    def tell_refusals(self, what: str, wire: Wire) -> None:
        """Write down how a client that may not manage tokens is refused, API by API and version by version."""
        requests: tuple[tuple[type[Message], int], ...] = (
            (CreateDelegationTokenRequest, 3),
            (RenewDelegationTokenRequest, 2),
            (ExpireDelegationTokenRequest, 2),
            (DescribeDelegationTokenRequest, 3),
        )
        for kind, last in requests:
            for version in range(1, last + 1):
                answer = wire.ask(kind(), version)
                if kind is CreateDelegationTokenRequest:
                    self.tell_created(f"{what}, v{version}", answer)
                else:
                    time = getattr(answer, "expiry_timestamp_ms", None)
                    self.tell(f"{what}, {kind.__name__} v{version}", error=answer.error_code, expires=time)


def play(one: TokenPlay) -> None:
    """Have the clients of a broker send everything."""
    play_creation(one)
    play_changes(one)
    play_descriptions(one)
    play_logins(one)
    play_expiry(one)
    one.tell_refusals("anonymous", one.anonymous)


def play_without_key(one: TokenPlay) -> None:
    """Have the clients of a broker without a secret key send everything."""
    nothing = CreateDelegationTokenResponse(hmac=b"nothing")
    for version in (1, 2, 3):
        one.create(f"created by v{version}", "alice", version)
        one.describe(f"described by v{version}", "alice", None, version)
    for version in (1, 2):
        one.renew(f"renewed by v{version}", "alice", nothing, -1, version)
        one.expire(f"expired by v{version}", "alice", nothing, -1, version)
    group = [Renewer(principal_type="Group", principal_name="g")]
    one.create("renewed by a group", "alice", renewers=group)
    one.create("for bob without an ACL", "alice", owner_principal_type="User", owner_principal_name="bob")
    one.log_in("unknown token", "nothing", "nothing")
    one.tell_refusals("anonymous", one.anonymous)


def play_creation(one: TokenPlay) -> None:
    for version in (1, 2, 3):
        one.create(f"created by v{version}", "alice", version)
    for lifetime_ms in (0, HOUR_MS, LONGEST_MS, -5):
        one.create(f"lifetime {lifetime_ms}", "alice", max_lifetime_ms=lifetime_ms)
    for_bob: dict[str, Any] = {"owner_principal_type": "User", "owner_principal_name": "bob"}
    group = [Renewer(principal_type="Group", principal_name="g")]
    one.create("for bob without an ACL", "alice", **for_bob)
    one.create("for bob without an ACL, by a group", "alice", renewers=group, **for_bob)
    one.create("for herself by name", "alice", owner_principal_type="User", owner_principal_name="alice")
    one.create("renewed by a group", "alice", renewers=group)
    one.create("type without a name", "alice", owner_principal_type="Group", owner_principal_name="")
    one.create("name without a type", "alice", owner_principal_type=None, owner_principal_name="bob")
    one.create("for a group", "root", owner_principal_type="Group", owner_principal_name="staff")
    one.create("for bob", "root", **for_bob)


def play_changes(one: TokenPlay) -> None:
    renewers = [Renewer(principal_type="User", principal_name="bob")]
    token = one.create("to change", "alice", renewers=renewers, max_lifetime_ms=HOUR_MS)
    of_bob = one.create(
        "of bob, to change", "root", owner_principal_type="User", owner_principal_name="bob", max_lifetime_ms=HOUR_MS
    )
    for version in (1, 2):
        one.renew(f"renewed by v{version}", "alice", token, -1, version)
        one.expire(f"expires by v{version}", "alice", token, 60_000, version)
    for period_ms in (0, 60_000, 2 * HOUR_MS, LONGEST_MS, -5):
        one.renew(f"renewed for {period_ms}", "bob", token, period_ms)
    for period_ms in (60_000, 2 * HOUR_MS, LONGEST_MS):
        one.expire(f"expires after {period_ms}", "bob", token, period_ms)
    for user in ("carol", "root"):
        one.renew(f"renewed by {user}", user, of_bob, -1)
        one.expire(f"expired by {user}", user, of_bob, 60_000)
        one.expire(f"removed by {user}", user, of_bob, -1)
    nothing = CreateDelegationTokenResponse(hmac=b"nothing")
    one.renew("renewed, unknown", "alice", nothing, -1)
    one.expire("expired, unknown", "alice", nothing, -1)


def play_descriptions(one: TokenPlay) -> None:
    for version in (1, 2, 3):
        one.describe(f"seen by v{version}", "alice", None, version)
    for user in ("alice", "bob", "carol", "root"):
        for owners in (None, [], ["alice"], ["bob", "nobody"], ["root"]):
            one.describe(f"of {owners} seen by {user}", user, owners)


def play_logins(one: TokenPlay) -> None:
    token = one.create("to log in", "alice")
    for mechanism in MECHANISMS:
        wire = one.log_in_with(f"login by {mechanism}", token, mechanism)
        one.tell("metadata", brokers=len(wire.ask(MetadataRequest(topics=[]), 9).brokers))
        one.tell_refusals(f"token by {mechanism}", wire)
    secret = b64encode(token.hmac).decode()
    one.log_in("wrong HMAC", token.token_id, secret[:-2] + "A=")
    one.log_in("token as a user", token.token_id, secret, is_token=False)
    one.log_in("user as a token", "alice", "alice")
    one.log_in("unknown token", "nothing", secret)
    one.expire("removed", "alice", token, -1)
    wait_until(lambda: token.token_id not in one.all_ids(), CHANGE)
    one.log_in_with("removed token", token)


def play_expiry(one: TokenPlay) -> None:
    token = one.create("to expire", "alice", max_lifetime_ms=1)
    renewal = RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=-1)
    expired = DelegationTokenExpiredError.code
    wait_until(lambda: one.user("alice").ask(renewal, 2).error_code == expired, CHANGE)
    for user in ("alice", "carol"):
        one.renew(f"expired, renewed by {user}", user, token, -1)
        one.expire(f"expired, expired by {user}", user, token, 0)
    one.describe("expired, described", "alice", None)
    wire = one.log_in_with("expired, login", token)
    try:
        answered = bool(wire.ask(MetadataRequest(topics=[]), 9).brokers)
    except (EOFError, ConnectionError):
        answered = False
    one.tell("expired, request after the login", answered=answered)
    one.expire("expired, removed by stranger", "carol", token, -1)
    one.expire("expired, removed", "alice", token, -1)
