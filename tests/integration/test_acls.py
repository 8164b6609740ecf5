"""Clients of a refbroker with ACLs: what is denied reaches the caller, and what is allowed works."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kclient import Admin, Consumer, NewTopic, Producer
from kclient.errors import (
    AdminError,
    ClusterAuthorizationError,
    ConfigError,
    GroupAuthorizationError,
    IllegalStateError,
    TopicAuthorizationError,
    TransactionalIdAuthorizationError,
)
from refbroker.testing import RefBroker
from tests.support.patience import ANSWER

pytestmark = pytest.mark.refbroker_only

USERS = {"root": "r", "anne": "a", "bob": "b"}


@pytest.fixture
def broker() -> Iterator[RefBroker]:
    with RefBroker(sasl=USERS, acls=True) as running:
        running.create_topic("orders")
        yield running


def options(broker: RefBroker, user: str) -> dict[str, Any]:
    return {**broker.client_options, "sasl_username": user, "sasl_password": USERS[user]}


def test_a_producer_without_a_permission_learns_it_from_the_record(broker: RefBroker) -> None:
    plain = {**options(broker, "anne"), "enable_idempotence": False}
    with Producer(**plain) as producer, pytest.raises(TopicAuthorizationError, match="orders"):
        producer.send("orders", b"v").result(ANSWER)


def test_a_writer_of_a_topic_needs_nothing_else(broker: RefBroker) -> None:
    broker.allow("User:anne", "WRITE", topic="orders")
    with Producer(**options(broker, "anne")) as producer:
        assert producer.send("orders", b"v").result(ANSWER).offset == 0
        with pytest.raises(TopicAuthorizationError):
            producer.send("bills", b"v").result(ANSWER)


def test_a_consumer_needs_its_topic_and_its_group(broker: RefBroker) -> None:
    with Producer(**options(broker, "root")) as producer:
        producer.send("orders", b"v").result(ANSWER)
    reader = {**options(broker, "anne"), "group_id": "readers", "auto_offset_reset": "earliest"}
    broker.allow("User:anne", "READ", topic="orders")
    with Consumer("orders", **reader) as consumer, pytest.raises(GroupAuthorizationError):
        consumer.poll(ANSWER)
    broker.allow("User:anne", "READ", group="read", prefixed=True)
    with Consumer("orders", **reader) as consumer:
        assert [record.value for record in consumer.poll(ANSWER)] == [b"v"]
    broker.deny("User:*", "READ", topic="*")
    with Consumer("orders", **reader) as consumer, pytest.raises(TopicAuthorizationError):
        consumer.poll(ANSWER)


def test_listings_contain_what_the_client_may_describe(broker: RefBroker) -> None:
    broker.create_topic("bills")
    broker.allow("User:anne", "DESCRIBE", topic="bills")
    with Admin(**options(broker, "anne")) as admin:
        assert set(admin.list_topics()) == {"bills"}
    with Admin(**options(broker, "root")) as admin:
        assert set(admin.list_topics()) == {"bills", "orders"}
    with Admin(**options(broker, "bob")) as admin:
        assert set(admin.list_topics()) == set()


def test_topics_are_created_by_whom_the_cluster_or_the_name_allows(broker: RefBroker) -> None:
    with Admin(**options(broker, "anne")) as admin:
        with pytest.raises(AdminError, match="TOPIC_AUTHORIZATION_FAILED"):
            admin.create_topics(NewTopic("mine"))
        broker.allow("User:anne", "CREATE", topic="m", prefixed=True)
        admin.create_topics(NewTopic("mine"))


def test_transactions_need_their_id(broker: RefBroker) -> None:
    broker.allow("User:anne", "WRITE", topic="orders")
    writer = {**options(broker, "anne"), "transactional_id": "t"}
    with Producer(**writer) as producer, pytest.raises(TransactionalIdAuthorizationError):
        producer.init_transactions()
    broker.allow("User:anne", "WRITE", transactional_id="t")
    with Producer(**writer) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("orders", b"v")


def test_idempotence_needs_a_topic_or_the_cluster(broker: RefBroker) -> None:
    broker.allow("User:anne", "DESCRIBE", topic="orders")
    with Producer(**options(broker, "anne")) as producer, pytest.raises(ClusterAuthorizationError, match="any topic"):
        producer.send("orders", b"v").result(ANSWER)


def test_acls_survive_a_restart(broker: RefBroker) -> None:
    broker.allow("User:anne", "WRITE", topic="orders")
    broker.restart()
    with Producer(**options(broker, "anne")) as producer:
        producer.send("orders", b"v").result(ANSWER)
    plain = {**options(broker, "bob"), "enable_idempotence": False}
    with Producer(**plain) as producer, pytest.raises(TopicAuthorizationError):
        producer.send("orders", b"v").result(ANSWER)


def test_an_acl_that_cannot_be_is_an_error(broker: RefBroker) -> None:
    with pytest.raises(ConfigError, match="no operation EAT"):
        broker.allow("User:anne", "EAT", topic="orders")
    with pytest.raises(ConfigError, match="one of topic, group"):
        broker.allow("User:anne", "READ", topic="orders", group="g")
    with pytest.raises(ConfigError, match="not for queue"):
        broker.allow("User:anne", "READ", queue="orders")
    with RefBroker(acls=False) as open_broker, pytest.raises(IllegalStateError, match=r"acls=True"):
        open_broker.allow("User:anne", "READ", topic="orders")
