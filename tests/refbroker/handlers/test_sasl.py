"""The APIs of SASL, as a broker answers them on a listener that has none."""

from __future__ import annotations

import pytest

from kclient.errors import IllegalSaslStateError
from kclient.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kclient.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.broker_harness import Harness


@pytest.mark.parametrize("version", [0, 1])
async def test_a_sasl_handshake_is_refused_without_mechanisms(harness: Harness, version: int) -> None:
    answer = harness.send(SaslHandshakeRequest(mechanism="PLAIN"), version)
    assert (answer.error_code, answer.mechanisms) == (IllegalSaslStateError.code, [])


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_sasl_authenticate_request_is_refused_too(harness: Harness, version: int) -> None:
    answer = harness.send(SaslAuthenticateRequest(auth_bytes=b"\0anne\0secret"), version)
    assert (answer.error_code, answer.auth_bytes) == (IllegalSaslStateError.code, b"")
    assert "after successful authentication" in answer.error_message
