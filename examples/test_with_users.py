"""An application's tests with users, permissions and tokens: `pytest examples/test_with_users.py`.

The first user of `sasl` may do everything, the others what ACLs allow. With OAUTHBEARER the fixture's broker accepts
tokens without a signature, so that a test needs no identity provider.
"""

import pytest

from kclient import Consumer, Producer
from kclient.errors import GroupAuthorizationError, TopicAuthorizationError
from refbroker.testing import RefBroker


@pytest.mark.refbroker(sasl={"admin": "secret", "shop": "wonder"}, acls=True)
def test_the_shop_may_write_orders_and_read_nothing(refbroker: RefBroker) -> None:
    refbroker.create_topic("orders")
    refbroker.allow("User:shop", "WRITE", topic="orders")

    shop = {**refbroker.client_options, "sasl_username": "shop", "sasl_password": "wonder"}
    with Producer(**shop) as producer:
        producer.send("orders", b"42").result(timeout=10)
        with pytest.raises(TopicAuthorizationError):
            producer.send("payments", b"42").result(timeout=10)
    with Consumer("orders", group_id="reports", **shop) as consumer, pytest.raises(GroupAuthorizationError):
        consumer.poll(timeout=10)


@pytest.mark.refbroker(sasl={"admin": "secret"}, settings={"sasl.enabled.mechanisms": "OAUTHBEARER"})
def test_the_application_logs_in_with_tokens_of_its_own(refbroker: RefBroker) -> None:
    with Producer(
        bootstrap_servers=refbroker.bootstrap_servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        # The application's own function asks an identity provider.
        sasl_oauth_token_provider=lambda: refbroker.oauth_token("shop"),
    ) as producer:
        assert producer.send("orders", b"42").result(timeout=10).offset == 0
