"""A client with AWS_MSK_IAM at a broker that checks its signatures as Amazon MSK does."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from kclient import Producer
from kclient.errors import SaslAuthenticationError
from refbroker.security.sasl import Mechanism, Users
from refbroker.testing import RefBroker
from tests.support.msk_server import Account, MskVerifier, msk_server
from tests.support.patience import ANSWER

pytestmark = [pytest.mark.refbroker_only, pytest.mark.not_simulated("signatures have the time of the system")]

ACCOUNTS = {"AKIA1": Account("alice", "wonder/land+", "session+token/==")}


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> Callable[[RefBroker], dict[str, Any]]:
    """The options of a client at a broker that offers AWS_MSK_IAM; its credentials are in the environment."""

    def mechanisms(users: Users, enabled: list[str], *_: object) -> dict[str, Mechanism]:
        return {"AWS_MSK_IAM": Mechanism(partial(msk_server, MskVerifier(ACCOUNTS)))}

    monkeypatch.setattr(Users, "mechanisms", mechanisms)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wonder/land+")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session+token/==")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")

    def of(broker: RefBroker) -> dict[str, Any]:
        found = {name: value for name, value in broker.client_options.items() if not name.startswith("sasl_")}
        return {**found, "sasl_mechanism": "AWS_MSK_IAM"}

    return of


def test_a_client_logs_in_with_the_credentials_of_the_environment(
    options: Callable[[RefBroker], dict[str, Any]],
) -> None:
    with RefBroker(sasl={"unused": "x"}, tls=True) as broker, Producer(**options(broker)) as producer:
        producer.send("t", b"v").result(ANSWER)
        assert broker.call(lambda kafka: {str(each.principal) for each in kafka.server.connections}) == {"User:alice"}


def test_a_refused_signature_names_the_access_key(
    options: Callable[[RefBroker], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "other")
    text = r"the AWS access key AKIA1 could not log in with AWS_MSK_IAM: \[4d8c3aa1\]: Access denied"
    with (
        RefBroker(sasl={"unused": "x"}, tls=True) as broker,
        Producer(**options(broker)) as producer,
        pytest.raises(SaslAuthenticationError, match=text) as caught,
    ):
        producer.send("t", b"v").result(ANSWER)
    assert "other" not in str(caught.value)
