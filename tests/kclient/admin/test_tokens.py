"""Delegation tokens: what is sent, by which version, what comes back, and that HMACs are shown nowhere."""

from __future__ import annotations

import copy
import pickle
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import pytest

from kclient.admin.tokens import (
    DelegationToken,
    create_delegation_token,
    describe_delegation_token,
    expire_delegation_token,
    renew_delegation_token,
)
from kclient.config import AdminConfig
from kclient.errors import (
    ConfigError,
    DisconnectedError,
    UnsupportedByAuthenticationError,
    UnsupportedVersionError,
)
from kclient.protocol import Message
from kclient.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kclient.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenResponse,
)
from kclient.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
)
from kclient.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from kclient.security.sasl import PasswordLogin
from kclient.security.secret import Secret
from tests.kclient.admin.scripted import ScriptedCore, finished, soon

HMAC = b"\xfb\xff" + bytes(62)
TEXT = b64encode(HMAC).decode()
TOKEN = DelegationToken("id", Secret(TEXT), "User:anne", "User:anne", (), 1, 2, 3)


def answers(**answer: Any) -> ScriptedCore:
    """Return a broker that answers each request about tokens with these fields."""
    return ScriptedCore(lambda node, request: type(request).response_type(**answer))


def created(core: ScriptedCore, **arguments: Any) -> DelegationToken:
    given = {"owner": None, "renewers": (), "max_lifetime": None} | arguments
    return finished(create_delegation_token(core, **given, deadline=soon("create_delegation_token")))  # type: ignore[no-any-return]


def request(core: ScriptedCore) -> tuple[Any, int]:
    """Return the only request that was sent, and its version."""
    ((_, sent, version),) = core.asked
    return sent, version


def test_a_token_is_created_with_everything_that_was_asked_for() -> None:
    core = answers(
        principal_type="User",
        principal_name="anne:x",
        token_requester_principal_type="User",
        token_requester_principal_name="bob",
        issue_timestamp_ms=1,
        expiry_timestamp_ms=2,
        max_timestamp_ms=3,
        token_id="id",
        hmac=HMAC,
    )
    token = created(core, owner="User:anne:x", renewers=["User:carol", "User:d"], max_lifetime=1.5)
    assert token == DelegationToken("id", Secret(TEXT), "User:anne:x", "User:bob", ("User:carol", "User:d"), 1, 2, 3)
    sent, version = request(core)
    assert version == 3
    assert (sent.owner_principal_type, sent.owner_principal_name, sent.max_lifetime_ms) == ("User", "anne:x", 1500)
    assert [(each.principal_type, each.principal_name) for each in sent.renewers] == [("User", "carol"), ("User", "d")]


@pytest.mark.parametrize(("version", "owner"), [(1, ""), (2, ""), (3, None)])
def test_without_an_owner_every_version_will_do(version: int, owner: str | None) -> None:
    core = answers(principal_type="User", principal_name="anne")
    core._newest[CreateDelegationTokenRequest] = version
    token = created(core)
    assert (token.owner, token.requester) == ("User:anne", "")
    sent, sent_version = request(core)
    assert (sent_version, sent.owner_principal_name, sent.max_lifetime_ms) == (version, owner, -1)


def test_an_owner_needs_a_broker_that_knows_owners() -> None:
    core = answers()
    core._newest[CreateDelegationTokenRequest] = 2
    with pytest.raises(UnsupportedVersionError):
        created(core, owner="User:anne")


@pytest.mark.parametrize(
    ("period", "sent_ms"), [(None, -1), (0.0001, 1), (60, 60_000)], ids=["default", "rounded up", "minute"]
)
def test_a_renewal_sends_the_bytes_of_the_hmac(period: float | None, sent_ms: int) -> None:
    core = answers(expiry_timestamp_ms=7)
    assert finished(renew_delegation_token(core, Secret(TEXT), period, soon("renew"))) == 7
    assert request(core)[0] == RenewDelegationTokenRequest(hmac=HMAC, renew_period_ms=sent_ms)


@pytest.mark.parametrize(
    ("period", "sent_ms"), [(None, -1), (0, 0), (0.0001, 1), (60, 60_000)], ids=["remove", "now", "soon", "minute"]
)
def test_a_token_expires_at_a_time_or_is_removed(period: float | None, sent_ms: int) -> None:
    core = answers(expiry_timestamp_ms=7)
    assert finished(expire_delegation_token(core, TEXT, period, soon("expire"))) == 7
    assert request(core)[0] == ExpireDelegationTokenRequest(hmac=HMAC, expiry_time_period_ms=sent_ms)


@pytest.mark.parametrize(
    ("owners", "sent"),
    [(None, None), ([], []), ("User:anne", [("User", "anne")]), (["User:a", "User:b"], [("User", "a"), ("User", "b")])],
    ids=["all", "none", "one", "two"],
)
def test_owners_select_tokens(owners: Any, sent: list[tuple[str, str]] | None) -> None:
    core = answers()
    assert finished(describe_delegation_token(core, owners, soon("describe"))) == []
    asked = request(core)[0].owners
    assert (asked if asked is None else [(each.principal_type, each.principal_name) for each in asked]) == sent


def test_tokens_are_described_in_the_order_of_their_creation() -> None:
    kind = DescribeDelegationTokenResponse.DescribedDelegationToken
    renewer = DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer
    first = kind(
        principal_type="User",
        principal_name="anne",
        token_requester_principal_type="User",
        token_requester_principal_name="bob",
        issue_timestamp=1,
        expiry_timestamp=2,
        max_timestamp=3,
        token_id="z",
        hmac=HMAC,
        renewers=[renewer(principal_type="User", principal_name="carol")],
    )
    core = answers(tokens=[kind(token_id="a", issue_timestamp=5), first])
    found = finished(describe_delegation_token(core, None, soon("describe")))
    assert [token.token_id for token in found] == ["z", "a"]
    assert found[0] == DelegationToken("z", Secret(TEXT), "User:anne", "User:bob", ("User:carol",), 1, 2, 3)


CALLS: list[Callable[[ScriptedCore], Any]] = [
    created,
    lambda core: finished(renew_delegation_token(core, TEXT, None, soon("renew"))),
    lambda core: finished(expire_delegation_token(core, TEXT, None, soon("expire"))),
    lambda core: finished(describe_delegation_token(core, None, soon("describe"))),
]
EVERY_CALL = pytest.mark.parametrize("call", CALLS, ids=["create", "renew", "expire", "describe"])


@EVERY_CALL
def test_the_error_of_a_response_is_raised(call: Callable[[ScriptedCore], Any]) -> None:
    with pytest.raises(UnsupportedByAuthenticationError, match="it needs SASL"):
        call(answers(error_code=UnsupportedByAuthenticationError.code))


@EVERY_CALL
def test_a_lost_connection_is_tried_again(call: Callable[[ScriptedCore], Any]) -> None:
    left = [DisconnectedError("lost"), DisconnectedError("lost")]

    def answer(node: int, request: Any) -> Any:
        return left.pop() if left else type(request).response_type()

    core = ScriptedCore(answer)
    call(core)
    assert len(core.asked) == 3


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda core: created(core, owner="anne"),
            r"\(owner=\) takes a principal with its type, such as",
        ),
        (lambda core: created(core, renewers="anne"), r"\(renewers=\) takes a principal with its type"),
        (lambda core: created(core, max_lifetime=0), r"\(max_lifetime=\) takes more than 0 seconds, not 0"),
        (
            lambda core: finished(renew_delegation_token(core, TEXT, -1, soon("renew"))),
            r"renew\(renew_period=\) takes more than 0 seconds, not -1",
        ),
        (
            lambda core: finished(expire_delegation_token(core, TEXT, -1, soon("expire"))),
            r"expire\(expiry_period=\) takes 0 or more seconds, not -1",
        ),
        (
            lambda core: finished(expire_delegation_token(core, "s3cret!", None, soon("expire"))),
            "^expire takes the HMAC of a token in base64, and this is not base64$",
        ),
        (
            lambda core: finished(describe_delegation_token(core, ["anne"], soon("describe"))),
            r"describe\(owners=\) takes a principal with its type",
        ),
    ],
    ids=["owner", "renewer", "lifetime", "period", "expiry", "hmac", "owners"],
)
def test_wrong_arguments_are_refused_before_anything_is_sent(call: Callable[[ScriptedCore], Any], text: str) -> None:
    core = answers()
    with pytest.raises(ConfigError, match=text):
        call(core)
    assert not core.asked


def test_the_hmac_as_bytes_is_refused_without_showing_it() -> None:
    wrong: Any = HMAC
    with pytest.raises(TypeError, match=r"^renew takes the HMAC of a token in base64, not a bytes$"):
        finished(renew_delegation_token(answers(), wrong, None, soon("renew")))


def test_the_jaas_configuration_logs_in_with_the_token() -> None:
    config = TOKEN.jaas_config()
    login = AdminConfig(security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-512", sasl_jaas_config=config).sasl
    assert isinstance(login, PasswordLogin)
    assert (login.user, login.password.reveal(), login.is_token) == ("id", TEXT, True)
    assert TEXT not in repr(config)


def test_a_token_does_not_show_its_hmac() -> None:
    assert TEXT not in repr(TOKEN)
    assert repr(HMAC)[2:-1] not in repr(TOKEN)
    assert "token_id='id'" in repr(TOKEN)
    assert copy.deepcopy(TOKEN) == TOKEN
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(TOKEN)


@pytest.mark.parametrize(
    "message",
    [
        CreateDelegationTokenResponse(hmac=HMAC),
        RenewDelegationTokenRequest(hmac=HMAC),
        ExpireDelegationTokenRequest(hmac=HMAC),
        DescribeDelegationTokenResponse(tokens=[DescribeDelegationTokenResponse.DescribedDelegationToken(hmac=HMAC)]),
    ],
    ids=lambda message: message.message_name,
)
def test_messages_do_not_show_the_hmac(message: Message) -> None:
    assert repr(HMAC) not in repr(message)
