"""Nothing but `reveal` shows a secret."""

from __future__ import annotations

import copy
import json
import logging
import pickle

import pytest

from kclient.config import ProducerConfig
from kclient.security.secret import Secret

TEXT = "correct horse"


def test_a_secret_shows_itself_to_nobody() -> None:
    secret = Secret(TEXT)
    shown = [
        str(secret),
        repr(secret),
        f"{secret}",
        repr([secret]),
        repr({"a": secret}),
        f"{secret!r:>30}",
    ]
    assert not [text for text in shown if TEXT in text]
    assert secret.reveal() == TEXT


def test_a_secret_is_neither_pickled_nor_made_json() -> None:
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(Secret(TEXT))
    with pytest.raises(TypeError):
        json.dumps(Secret(TEXT))


def test_secrets_are_compared_by_their_texts() -> None:
    assert Secret(TEXT) == Secret(Secret(TEXT))
    assert Secret(TEXT) != Secret("other")
    assert Secret(TEXT) != TEXT
    assert len({Secret(TEXT), Secret(TEXT)}) == 1
    assert copy.deepcopy(Secret(TEXT)) == Secret(TEXT)
    assert not Secret("")


def test_a_config_shows_no_password(caplog: pytest.LogCaptureFixture) -> None:
    config = ProducerConfig(
        security_protocol="SSL",
        ssl_keystore_location="/etc/client.p12",
        ssl_keystore_password=TEXT,
        ssl_key_password=TEXT,
    )
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("test").warning("%s %r", config, config)
    assert TEXT not in repr(config) + str(config) + caplog.text
    assert config == ProducerConfig(
        security_protocol="SSL",
        ssl_keystore_location="/etc/client.p12",
        ssl_keystore_password=Secret(TEXT),
        ssl_key_password=Secret(TEXT),
    )
