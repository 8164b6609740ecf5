"""Delegation tokens: their times by a held clock, who may change them, what is stored, and their removal."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kclient.errors import (
    DelegationTokenDisabledError,
    DelegationTokenExpiredError,
    DelegationTokenNotFoundError,
    DelegationTokenOwnerMismatchError,
    UnsupportedVersionError,
)
from kclient.protocol.messages.records.metadata_log import (
    DelegationTokenRecord,
    FeatureLevelRecord,
    RemoveDelegationTokenRecord,
)
from kclient.security.scram import MECHANISMS, ScramMechanism, credential_of, salted_password
from refbroker.broker import plan_background
from refbroker.controller.tokens import MOST_REMOVED
from refbroker.runtime.background import Background
from refbroker.security.principals import Principal
from tests.support.broker_harness import START_MS, Harness

ANNE, BOB, CAROL = (Principal("User", name) for name in ("anne", "bob", "carol"))
KEY = "k3y"
EXPIRY_MS, MAX_MS = 60_000, 100_000
INTERVAL_MS = 10_000


class Tokens:
    """The tokens of a broker on a held clock.

    Parameters:
        key: its secret key.
    """

    def __init__(self, directory: Path, key: str = KEY) -> None:
        settings: dict[str, Any] = {
            "delegation.token.secret.key": key,
            "delegation.token.expiry.time.ms": str(EXPIRY_MS),
            "delegation.token.max.lifetime.ms": str(MAX_MS),
            "delegation.token.expiry.check.interval.ms": str(INTERVAL_MS),
        }
        self.harness = Harness(directory, **settings)

    @property
    def stored(self) -> dict[str, DelegationTokenRecord]:
        return self.harness.broker.image.tokens

    def create(
        self,
        owner: Principal = ANNE,
        *renewers: Principal,
        requester: Principal | None = None,
        max_lifetime_ms: int = -1,
    ) -> DelegationTokenRecord:
        record = self.harness.broker.token_control.create(requester or owner, owner, renewers, max_lifetime_ms)
        self.harness.broker.controller.append([record])
        return record

    def renew(self, principal: Principal, token: DelegationTokenRecord, period_ms: int = -1) -> int:
        """Renew a token; return how long from the start of the test it is valid."""
        record = self.harness.broker.token_control.renew(principal, self.hmac(token), period_ms)
        self.harness.broker.controller.append([record])
        return record.expiration_timestamp - START_MS

    def expire(self, principal: Principal, token: DelegationTokenRecord, period_ms: int) -> int:
        """Let a token expire; return how long from the start of the test it is valid."""
        record, expires_ms = self.harness.broker.token_control.expire(principal, self.hmac(token), period_ms)
        self.harness.broker.controller.append([record])
        return expires_ms - START_MS

    def hmac(self, token: DelegationTokenRecord) -> bytes:
        return self.harness.broker.tokens.hmac(token.token_id)

    def wait(self, ms: int) -> None:
        self.harness.clock.step(ms)


@pytest_asyncio.fixture
async def tokens(tmp_path: Path) -> AsyncIterator[Tokens]:
    made = Tokens(tmp_path / "data")
    yield made
    made.harness.close()


async def test_a_token_is_stored_as_in_kafka(tokens: Tokens) -> None:
    record = tokens.create(ANNE, BOB, CAROL, requester=BOB)
    assert tokens.stored == {record.token_id: record}
    assert record == DelegationTokenRecord(
        owner="User:anne",
        requester="User:bob",
        renewers=["User:bob", "User:carol"],
        issue_timestamp=START_MS,
        max_timestamp=START_MS + MAX_MS,
        expiration_timestamp=START_MS + EXPIRY_MS,
        token_id=record.token_id,
    )
    assert len(record.token_id) == 22
    assert tokens.hmac(record) == hmac.digest(KEY.encode(), record.token_id.encode(), hashlib.sha512)


@pytest.mark.parametrize(
    ("max_lifetime_ms", "ends_ms", "expires_ms"),
    [
        (-1, MAX_MS, EXPIRY_MS),
        (0, MAX_MS, EXPIRY_MS),
        (1, 1, 1),
        (EXPIRY_MS + 1, EXPIRY_MS + 1, EXPIRY_MS),
        (2**63 - 1, MAX_MS, EXPIRY_MS),
    ],
    ids=["default", "zero", "short", "longer", "too long"],
)
async def test_a_lifetime_is_at_most_that_of_the_broker(
    tokens: Tokens, max_lifetime_ms: int, ends_ms: int, expires_ms: int
) -> None:
    record = tokens.create(max_lifetime_ms=max_lifetime_ms)
    assert (record.max_timestamp - START_MS, record.expiration_timestamp - START_MS) == (ends_ms, expires_ms)


async def test_times_do_not_exceed_64_bits(tmp_path: Path) -> None:
    longest = str(2**63 - 1)
    settings: dict[str, Any] = {"delegation.token.expiry.time.ms": longest, "delegation.token.max.lifetime.ms": longest}
    harness = Harness(tmp_path / "data", delegation_token_secret_key=KEY, **settings)
    record = harness.broker.token_control.create(ANNE, ANNE, [], -1)
    assert (record.max_timestamp, record.expiration_timestamp) == (2**63 - 1, 2**63 - 1)
    harness.close()


@pytest.mark.parametrize(
    ("period_ms", "expires_ms"),
    [(-1, 20_000 + EXPIRY_MS), (0, 20_000 + EXPIRY_MS), (5, 20_005), (10**9, 20_000 + EXPIRY_MS)],
    ids=["default", "zero", "short", "too long"],
)
async def test_a_renewal_counts_from_now(tokens: Tokens, period_ms: int, expires_ms: int) -> None:
    record = tokens.create()
    tokens.wait(20_000)
    assert tokens.renew(ANNE, record, period_ms) == expires_ms
    assert tokens.stored[record.token_id].expiration_timestamp == START_MS + expires_ms


async def test_a_renewal_cannot_exceed_the_lifetime(tokens: Tokens) -> None:
    record = tokens.create()
    tokens.wait(EXPIRY_MS)
    assert tokens.renew(ANNE, record) == MAX_MS
    tokens.wait(MAX_MS - EXPIRY_MS)
    assert tokens.renew(ANNE, record) == MAX_MS
    tokens.wait(1)
    with pytest.raises(DelegationTokenExpiredError):
        tokens.renew(ANNE, record)


@pytest.mark.parametrize(
    ("period_ms", "expires_ms"), [(0, 20_000), (5, 20_005), (10**9, MAX_MS)], ids=["now", "soon", "too late"]
)
async def test_a_token_can_be_made_to_expire_earlier_or_later(tokens: Tokens, period_ms: int, expires_ms: int) -> None:
    record = tokens.create()
    tokens.wait(20_000)
    assert tokens.expire(ANNE, record, period_ms) == expires_ms
    assert tokens.stored[record.token_id].expiration_timestamp == START_MS + expires_ms


async def test_a_negative_period_removes_a_token_even_an_expired_one(tokens: Tokens) -> None:
    first, second = tokens.create(), tokens.create()
    assert tokens.expire(ANNE, first, -1) == 0
    assert list(tokens.stored) == [second.token_id]
    tokens.wait(EXPIRY_MS + 1)
    with pytest.raises(DelegationTokenExpiredError):
        tokens.expire(ANNE, second, 0)
    assert tokens.expire(ANNE, second, -1) == EXPIRY_MS + 1
    assert not tokens.stored
    with pytest.raises(DelegationTokenNotFoundError):
        tokens.expire(ANNE, second, -1)


async def test_only_owner_and_renewers_change_a_token(tokens: Tokens) -> None:
    record = tokens.create(ANNE, BOB, requester=CAROL)
    for principal in (ANNE, BOB):
        tokens.renew(principal, record)
        tokens.expire(principal, record, 1000)
    # The requester may see the token, and no more.
    with pytest.raises(DelegationTokenOwnerMismatchError):
        tokens.renew(CAROL, record)
    with pytest.raises(DelegationTokenOwnerMismatchError):
        tokens.expire(CAROL, record, -1)


async def test_that_a_token_has_expired_comes_before_whose_it_is_except_at_removal(tokens: Tokens) -> None:
    record = tokens.create()
    tokens.wait(EXPIRY_MS + 1)
    with pytest.raises(DelegationTokenExpiredError):
        tokens.renew(BOB, record)
    with pytest.raises(DelegationTokenOwnerMismatchError):
        tokens.expire(BOB, record, 0)


@pytest.mark.parametrize("token_hmac", [b"", b"x", bytes(64)], ids=["empty", "short", "wrong"])
async def test_an_unknown_hmac_names_no_token(tokens: Tokens, token_hmac: bytes) -> None:
    tokens.create()
    with pytest.raises(DelegationTokenNotFoundError):
        tokens.harness.broker.token_control.renew(ANNE, token_hmac, -1)


async def test_without_a_key_there_are_no_changes_and_no_accounts(tmp_path: Path) -> None:
    with_key = Tokens(tmp_path / "data")
    record = with_key.create()
    with_key.harness.close()
    without = Tokens(tmp_path / "data", key="")
    manager, accounts = without.harness.broker.token_control, without.harness.broker.tokens
    assert not accounts.is_enabled
    for change in (
        lambda: manager.create(ANNE, ANNE, [], -1),
        lambda: manager.renew(ANNE, b"", -1),
        lambda: manager.expire(ANNE, b"", -1),
    ):
        with pytest.raises(DelegationTokenDisabledError):
            change()
    assert accounts.account(MECHANISMS["SCRAM-SHA-256"], record.token_id) is None
    without.wait(MAX_MS + 1)
    manager.remove_expired()
    # The tokens wait for a broker that has the key.
    assert without.stored == {record.token_id: record}
    without.harness.close()


async def test_a_cluster_at_an_old_level_has_no_tokens(tokens: Tokens) -> None:
    tokens.harness.broker.controller.append([FeatureLevelRecord(name="metadata.version", feature_level=13)])
    manager = tokens.harness.broker.token_control
    for change in (
        lambda: manager.create(ANNE, ANNE, [], -1),
        lambda: manager.renew(ANNE, b"", -1),
        lambda: manager.expire(ANNE, b"", -1),
    ):
        with pytest.raises(UnsupportedVersionError, match="does not support delegation tokens"):
            change()


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
async def test_the_password_of_a_token_is_its_hmac_in_base64(tokens: Tokens, mechanism: ScramMechanism) -> None:
    record = tokens.create(ANNE, requester=BOB)
    account = tokens.harness.broker.tokens.account(mechanism, record.token_id)
    assert account is not None
    assert (account.user, account.is_token) == ("anne", True)
    assert account.expires_ms == record.expiration_timestamp
    found, password = account.credential, b64encode(tokens.hmac(record)).decode()
    salted = salted_password(mechanism, password, found.salt, 4096)
    assert found == credential_of(mechanism, salted, found.salt, 4096)


async def test_an_account_follows_the_changes_of_its_token(tokens: Tokens) -> None:
    mechanism = MECHANISMS["SCRAM-SHA-512"]
    record = tokens.create()
    manager = tokens.harness.broker.tokens
    before = manager.account(mechanism, record.token_id)
    tokens.wait(1000)
    tokens.renew(ANNE, record)
    after = manager.account(mechanism, record.token_id)
    assert before is not None
    assert after == before._replace(expires_ms=START_MS + 1000 + EXPIRY_MS)
    tokens.expire(ANNE, record, -1)
    assert manager.account(mechanism, record.token_id) is None


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
async def test_tokens_are_kept_over_a_restart(tokens: Tokens, clean: bool) -> None:
    kept, removed = tokens.create(), tokens.create()
    tokens.expire(ANNE, removed, -1)
    tokens.harness.restart(clean=clean)
    assert tokens.stored == {kept.token_id: kept}
    assert tokens.renew(ANNE, kept) == EXPIRY_MS
    with pytest.raises(DelegationTokenNotFoundError):
        tokens.renew(ANNE, removed)


async def test_tokens_are_kept_in_a_snapshot(tokens: Tokens) -> None:
    kept, removed = tokens.create(BOB, ANNE), tokens.create()
    tokens.expire(ANNE, removed, -1)
    await tokens.harness.broker.metadata.take_snapshot()
    tokens.harness.restart()
    assert tokens.stored == {kept.token_id: kept}
    assert tokens.renew(ANNE, kept) == EXPIRY_MS


async def test_expired_tokens_are_removed_at_the_interval(tokens: Tokens) -> None:
    short, long = tokens.create(max_lifetime_ms=INTERVAL_MS), tokens.create()
    background = Background(tokens.harness.clock)
    plan_background(background, tokens.harness.broker)
    background.start()
    await background.settled()
    await tokens.harness.pass_time(INTERVAL_MS)
    await background.settled()
    # It expires a moment later.
    assert list(tokens.stored) == [short.token_id, long.token_id]
    await tokens.harness.pass_time(INTERVAL_MS)
    await background.settled()
    assert list(tokens.stored) == [long.token_id]
    await background.stop()


async def test_many_expired_tokens_are_removed_in_one_round(tokens: Tokens) -> None:
    broker = tokens.harness.broker
    manager = broker.token_control
    broker.controller.append([manager.create(ANNE, ANNE, [], -1) for _ in range(2 * MOST_REMOVED + 1)])
    batches: list[int] = []
    broker.metadata.listeners.append(lambda records: batches.append(len(records)))
    tokens.wait(EXPIRY_MS)
    manager.remove_expired()
    assert not batches
    tokens.wait(1)
    manager.remove_expired()
    assert batches == [MOST_REMOVED, MOST_REMOVED, 1]
    assert not tokens.stored


async def test_the_removal_is_a_record_of_the_log(tokens: Tokens) -> None:
    record = tokens.create(max_lifetime_ms=1)
    written: list[object] = []
    tokens.harness.broker.metadata.listeners.append(written.extend)
    tokens.wait(2)
    tokens.harness.broker.token_control.remove_expired()
    assert written == [RemoveDelegationTokenRecord(token_id=record.token_id)]
