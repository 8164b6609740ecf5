"""OAUTHBEARER from the settings of a listener: what contradicts each other, and what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from kclient.errors import ConfigError
from refbroker.testing import RefBroker

PREFIX = "listener.name.sasl_plaintext.oauthbearer."
HANDLER = "sasl.server.callback.handler.class"
VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
KEYS = "sasl.oauthbearer.jwks.endpoint.url"
REFRESH = "sasl.oauthbearer.jwks.endpoint.refresh.ms"
MODULE = "org.apache.kafka.common.security.{}LoginModule required {};"


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({f"{PREFIX}{HANDLER}": VALIDATOR}, f"{HANDLER} needs {KEYS}"),
        ({f"{PREFIX}{HANDLER}": "com.example.Handler"}, f"{HANDLER} must be org.apache.kafka"),
        ({HANDLER: VALIDATOR, KEYS: "https://login.test/keys"},
         f"{HANDLER} has no effect in Kafka without listener.name.sasl_plaintext.MECHANISM. before it"),
        ({f"listener.name.sasl_plaintext.{HANDLER}": VALIDATOR},
         f"listener.name.sasl_plaintext.{HANDLER} has no effect"),
        ({f"{PREFIX}{HANDLER}": VALIDATOR, KEYS: "https://login.test/keys", REFRESH: "0"},
         f"{REFRESH} of listener SASL_PLAINTEXT must be more than 0, not 0"),
        ({KEYS: "https://login.test/keys"}, f"{KEYS} has no effect unless listener.name.LISTENER.oauthbearer"),
        ({f"{PREFIX}{HANDLER}": VALIDATOR, KEYS: "http://login.test/keys"}, "must begin with https://"),
        ({f"{PREFIX}{HANDLER}": VALIDATOR, KEYS: "file:///nowhere"}, "file:///nowhere: it cannot be read: No such"),
        ({f"{PREFIX}sasl.jaas.config": MODULE.format("plain.Plain", "")}, "must have OAuthBearerLoginModule"),
        ({f"{PREFIX}sasl.jaas.config": MODULE.format("oauthbearer.OAuthBearer",
          "unsecuredValidatorAllowableClockSkewMs=soon")}, "AllowableClockSkewMs must be a number of milliseconds"),
    ],
    ids=["no keys", "handler", "everywhere", "listener", "interval", "unused keys", "http", "no file", "module",
         "skew"],
)  # fmt: skip
def test_settings_that_accept_no_tokens_are_refused(settings: dict[str, str], text: str) -> None:
    enabled = {"sasl.enabled.mechanisms": "OAUTHBEARER"}
    with pytest.raises(ConfigError, match=text), RefBroker(sasl={"alice": "w"}, settings=enabled | settings):
        pass


def test_a_file_that_is_no_key_set_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text("{}")
    settings = {f"{PREFIX}{HANDLER}": VALIDATOR, KEYS: path.as_uri(), "sasl.enabled.mechanisms": "OAUTHBEARER"}
    with (
        pytest.raises(ConfigError, match="is not a JSON Web Key Set"),
        RefBroker(sasl={"alice": "w"}, settings=settings),
    ):
        pass
