"""Amazon MSK with Amazon's packages: botocore's signatures, and tokens of the signer for OAUTHBEARER."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from kclient import OAuthToken, Producer
from kclient.errors import SaslAuthenticationError
from kclient.security.aws.credentials import AwsSession
from kclient.security.aws.signature import AwsCredentials, signed_payload
from kclient.security.oauth.exchange import TokenRefusedError
from kclient.security.secret import Secret
from refbroker.security.oauth import AcceptedToken, UnsecuredTokens
from refbroker.testing import RefBroker
from tests.support.msk_server import Account, MskVerifier
from tests.support.patience import ANSWER

HOST = "b-1.orders.x1y2.c3.kafka.eu-west-1.amazonaws.com"
KEYS = {
    "AWS_ACCESS_KEY_ID": "AKIA1",
    "AWS_SECRET_ACCESS_KEY": "wonder/land+",
    "AWS_SESSION_TOKEN": "session+token/==",
}
ACCOUNTS = {"AKIA1": Account("alice", "wonder/land+", "session+token/==")}


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


def test_the_signature_is_that_of_botocore() -> None:
    pytest.importorskip("botocore", reason="botocore is not installed")
    from botocore.auth import SigV4QueryAuth
    from botocore.awsrequest import AWSRequest

    credentials = AwsSession(None).credentials()
    assert credentials == AwsCredentials("AKIA1", Secret("wonder/land+"), Secret("session+token/=="))
    signer = SigV4QueryAuth(_BotocoreKeys(), "kafka-cluster", "eu-west-1", expires=900)
    request = AWSRequest(method="GET", url=f"https://{HOST}/", params={"Action": "kafka-cluster:Connect"})
    signer.add_auth(request)
    theirs = {name.lower(): value for name, value in parse_qsl(urlsplit(request.url).query)}
    signed_at = time.strptime(theirs["x-amz-date"], "%Y%m%dT%H%M%SZ")
    ours: dict[str, Any] = json.loads(signed_payload(HOST, "eu-west-1", credentials, "x", _milliseconds(signed_at)))
    assert {name: ours[name] for name in theirs} == theirs


class _BotocoreKeys:
    """The keys as botocore has them."""

    access_key = "AKIA1"
    secret_key = "wonder/land+"
    token = "session+token/=="


def _milliseconds(moment: time.struct_time) -> int:
    import calendar

    return calendar.timegm(moment) * 1000


@pytest.mark.parametrize("secret", ["wonder/land+", "other"], ids=["right", "wrong"])
def test_tokens_of_amazons_signer_log_in(monkeypatch: pytest.MonkeyPatch, secret: str) -> None:
    reason = "aws-msk-iam-sasl-signer-python is not installed"
    signer = pytest.importorskip("aws_msk_iam_sasl_signer.MSKAuthTokenProvider", reason=reason)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    verifier = MskVerifier(ACCOUNTS)

    def accept(validator: UnsecuredTokens, token: str) -> AcceptedToken:
        try:
            return AcceptedToken(*verifier.check_token(token))
        except SaslAuthenticationError as error:
            raise TokenRefusedError(error.message) from None

    monkeypatch.setattr(UnsecuredTokens, "accept", accept)
    with RefBroker(sasl={"unused": "x"}, tls=True, settings={"sasl.enabled.mechanisms": "OAUTHBEARER"}) as broker:
        options = {name: value for name, value in broker.client_options.items() if not name.startswith("sasl_")}
        options["sasl_mechanism"] = "OAUTHBEARER"

        def token() -> OAuthToken:
            return OAuthToken(*signer.generate_auth_token("eu-west-1"))

        with Producer(sasl_oauth_token_provider=token, **options) as producer:
            if secret == "other":
                with pytest.raises(SaslAuthenticationError, match="could not log in with OAUTHBEARER"):
                    producer.send("t", b"v").result(ANSWER)
                return
            producer.send("t", b"v").result(ANSWER)
            users = broker.call(lambda kafka: {str(each.principal) for each in kafka.server.connections})
            assert users == {"User:alice"}
