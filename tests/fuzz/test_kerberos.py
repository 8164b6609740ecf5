"""The rules for names of Kerberos principals, and the messages of GSSAPI, with hostile text and bytes."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kclient.errors import ConfigError, SaslAuthenticationError
from kclient.security.kerberos.exchange import gssapi_client, gssapi_server
from refbroker.security.kerberos_names import KerberosNames
from refbroker.security.principals import NoMatchingRuleError

pytestmark = pytest.mark.fuzz

RULES = st.text("RULE:[]()/\\$s0123gLU@.*+?^|xDEFAULT", max_size=40) | st.builds(
    "RULE:[{}:{}]({})s/{}/{}/g".format,
    st.integers(0, 3),
    st.text("$0123ab@", max_size=8),
    st.text("ab.*|\\[]", max_size=8),
    st.text("ab.*|()\\", max_size=8),
    st.text("ab$012{}\\", max_size=8),
)


@given(RULES, st.text("ab/@.$\\", max_size=20))
def test_a_rule_makes_a_name_or_a_known_error(rule: str, principal: str) -> None:
    try:
        name = KerberosNames([rule], "EXAMPLE.COM").user(principal)
    except (ConfigError, NoMatchingRuleError):
        return
    assert "@" not in name or "@" not in principal


class OpenContext:
    """A security context that is complete after one step, and signs nothing."""

    peer = "alice@REALM"
    is_complete = False

    def step(self, token: bytes | None) -> bytes:
        self.is_complete = True
        return b""

    def wrap(self, message: bytes) -> bytes:
        return message

    def unwrap(self, message: bytes) -> bytes:
        return message


@given(st.binary(max_size=12))
def test_no_message_breaks_either_side(message: bytes) -> None:
    client, server = gssapi_client(OpenContext()), gssapi_server(OpenContext)
    next(client)
    next(server)
    server.send(b"")
    for side in (client, server):
        with suppress(SaslAuthenticationError, StopIteration):
            side.send(message)
