"""ACLs of refbroker, changed and listed by Kafka's kafka-acls."""

from __future__ import annotations

from typing import Any

import pytest

from kclient import Producer
from kclient.errors import TopicAuthorizationError
from refbroker.testing import RefBroker
from tests.support.kafka.tools import JavaTools
from tests.support.patience import ANSWER

USERS = {"anne": "a"}


def test_kafka_acls_adds_lists_and_removes(needs_kafka: None) -> None:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "super.users": "User:ANONYMOUS",
    }
    with RefBroker(settings=settings, sasl=USERS, acls=True) as broker:
        java = JavaTools(broker.address("PLAINTEXT"))

        def acls(*arguments: str) -> str:
            return java.run("org.apache.kafka.tools.AclCommand", *arguments)

        broker.create_topic("orders")
        rule = ("--allow-principal", "User:anne", "--topic", "ord", "--resource-pattern-type", "prefixed")
        shown = "(principal=User:anne, host=*, operation=WRITE, permissionType=ALLOW)"
        assert shown in acls("--add", *rule, "--producer")
        assert shown in acls("--list", "--topic", "orders", "--resource-pattern-type", "match")
        options: dict[str, Any] = {
            "bootstrap_servers": broker.address("SASL_PLAINTEXT"),
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_username": "anne",
            "sasl_password": USERS["anne"],
            "enable_idempotence": False,
        }
        with Producer(**options) as producer:
            assert producer.send("orders", b"v").result(ANSWER).offset == 0
            acls("--remove", *rule, "--producer", "--force")
            with pytest.raises(TopicAuthorizationError):
                producer.send("orders", b"v").result(ANSWER)
        assert shown not in acls("--list")
