"""One data directory with ACLs, users of SCRAM, delegation tokens and client quotas, in turn of refbroker and of Kafka.

Each finds what the other has stored, obeys it, and changes it. Elsewhere: topics, records and the files themselves
(`test_directory_swap`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kclient import Admin, Producer
from kclient.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    DelegationToken,
    PatternType,
    QuotaEntity,
    ScramDeletion,
    ScramUpsertion,
)
from refbroker.testing import RefBroker
from tests.interop.authorizing import LISTENER, SETTINGS, AuthorizingKafka
from tests.support.patience import CHANGE
from tests.support.waiting import wait_until

EAGER = {
    "metadata.log.max.record.bytes.between.snapshots": "1",
    "metadata.log.segment.ms": "1000",
    "metadata.max.retention.bytes": "0",
}
"""A snapshot for every change, so that the other one reads the state from there."""


class Swap:
    """The data directory of a Kafka, and clients of the broker that uses it.

    Attributes:
        root: an admin client that may do everything.
        expected: the state that the broker must have.
    """

    def __init__(self, folder: Path) -> None:
        self.kafka = AuthorizingKafka(folder)
        self.directory = self.kafka.data_directory()
        self.directory.parent.mkdir(parents=True)
        self.sasl = self.kafka.address(listener=LISTENER)
        self.root: Admin
        self.expected: dict[str, Any] = {}

    @contextmanager
    def turn(self, owner: str) -> Iterator[None]:
        """Have one of the two use the directory; check that it has what the other one left."""
        with self._broker(owner), Admin(**self.options("root", "PLAIN", "root")) as self.root:
            self.check()
            yield
            self.check()

    @contextmanager
    def _broker(self, owner: str) -> Iterator[None]:
        if owner == "kafka":
            self.kafka.start(1)
            try:
                yield
            finally:
                self.kafka.stop(1)
        else:
            listeners = f"PLAINTEXT://{self.kafka.address()},{LISTENER}://{self.sasl}"
            settings = {**SETTINGS, **EAGER, "listeners": listeners}
            with RefBroker(data_dir=self.directory, settings=settings) as broker:
                yield
                # Snapshots are taken each second, and the log behind them is cleaned each minute.
                for _ in range(3):
                    broker.clock.step(61)

    def options(self, user: str, mechanism: str, password: str) -> dict[str, Any]:
        login = {"sasl_mechanism": mechanism, "sasl_username": user, "sasl_password": password}
        return {"bootstrap_servers": self.sasl, "security_protocol": "SASL_PLAINTEXT", **login}

    def by_token(self, token: DelegationToken) -> dict[str, Any]:
        login = {"sasl_mechanism": "SCRAM-SHA-512", "sasl_jaas_config": token.jaas_config()}
        return {"bootstrap_servers": self.sasl, "security_protocol": "SASL_PLAINTEXT", **login}

    def state(self) -> dict[str, Any]:
        """Return everything about security that the broker describes."""
        return {
            "acls": set(self.root.describe_acls()),
            "users": self.root.describe_user_scram_credentials(),
            "tokens": self.root.describe_delegation_token(),
            "quotas": self.root.describe_client_quotas(),
        }

    def check(self) -> None:
        if self.expected:
            wait_until(lambda: self.state() == self.expected, CHANGE)
        self.expected = self.state()

    def create_token(self, **arguments: Any) -> DelegationToken:
        """Create a token, and wait until the broker has it."""
        token = self.root.create_delegation_token(**arguments)
        wait_until(lambda: token in self.root.describe_delegation_token(), CHANGE)
        return token


def send(topic: str, options: dict[str, Any]) -> None:
    """Produce a record, for which the client must log in and be allowed to write."""
    with Producer(**options) as producer:
        producer.send(topic, b"v").result(CHANGE)


WRITE = AclBinding(AclResourceType.TOPIC, "orders", "User:shop", AclOperation.ALL)
DENY = AclBinding(
    AclResourceType.GROUP,
    "app",
    "User:*",
    AclOperation.READ,
    AclPermissionType.DENY,
    PatternType.PREFIXED,
    "127.0.0.1",
)
TOKENS_OF_SHOP = AclBinding(AclResourceType.USER, "User:shop", "User:alice", AclOperation.CREATE_TOKENS)
WRITE_FILTER = AclBindingFilter(AclResourceType.TOPIC, "orders")
CLERK_LEAVES = ScramDeletion("clerk")
SHOP, EVERYBODY = QuotaEntity("shop"), QuotaEntity("", "app")


def test_both_read_what_the_other_has_stored_about_security(needs_kafka: None, tmp_path: Path) -> None:
    swap = Swap(tmp_path)
    with swap.turn("refbroker"):
        swap.root.create_acls([WRITE, DENY, TOKENS_OF_SHOP])
        swap.root.alter_user_scram_credentials(ScramUpsertion("shop", "first", "SCRAM-SHA-256", iterations=5000))
        swap.root.alter_user_scram_credentials(ScramUpsertion("clerk", "c"))
        swap.root.alter_client_quotas({SHOP: {"producer_byte_rate": 1e8}, EVERYBODY: {"request_percentage": 500.5}})
        kept = swap.create_token(owner="User:shop", renewers=["User:alice", "User:shop"])
        removed = swap.create_token(owner="User:shop")
        send("orders", swap.by_token(kept))
        swap.expected = {}
    with swap.turn("kafka"):
        send("orders", swap.by_token(kept))
        send("orders", swap.options("shop", "SCRAM-SHA-256", "first"))
        with Admin(**swap.options("alice", "PLAIN", "alice")) as alice:
            # The key is the same, so Kafka finds the token by the HMAC that refbroker has computed.
            assert alice.renew_delegation_token(kept.hmac, renew_period=3600) < kept.expiry_timestamp
        with Admin(**swap.options("shop", "SCRAM-SHA-256", "first")) as shop:
            shop.expire_delegation_token(removed.hmac)
        added = swap.create_token(owner="User:shop", max_lifetime=7200)
        swap.root.delete_acls(WRITE_FILTER)
        swap.root.create_acls(AclBinding(AclResourceType.TOPIC, "*", "User:shop", AclOperation.ALL))
        swap.root.alter_user_scram_credentials([ScramUpsertion("shop", "second", "SCRAM-SHA-256"), CLERK_LEAVES])
        swap.root.alter_client_quotas({SHOP: {"producer_byte_rate": None, "consumer_byte_rate": 2e8}})
        wait_until(lambda: "clerk" not in swap.root.describe_user_scram_credentials(), CHANGE)
        wait_until(lambda: swap.root.describe_client_quotas().get(SHOP) == {"consumer_byte_rate": 2e8}, CHANGE)
        wait_until(lambda: len(swap.root.describe_delegation_token()) == 2, CHANGE)
        swap.expected = {}
    with swap.turn("refbroker"):
        (first, second) = swap.root.describe_delegation_token()
        assert (first.token_id, first.hmac) == (kept.token_id, kept.hmac)
        assert first.expiry_timestamp < kept.expiry_timestamp
        assert second == added
        for token in (first, second):
            send("bills", swap.by_token(token))
        send("bills", swap.options("shop", "SCRAM-SHA-256", "second"))
        with Admin(**swap.options("shop", "SCRAM-SHA-256", "second")) as shop:
            assert shop.renew_delegation_token(added.hmac) == added.max_timestamp
            shop.expire_delegation_token(first.hmac)
        swap.expected = {}
    with swap.turn("kafka"):
        assert swap.root.describe_delegation_token() == [added]
        send("bills", swap.by_token(added))
