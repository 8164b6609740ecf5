"""SASL of a client: the mechanisms, who logs in, and the messages of the exchange.

Not implemented: GSSAPI, OAUTHBEARER. Elsewhere: SCRAM's computations (`scram`), the requests that carry the messages
(`kclient.net.sasl`), and the side of the broker (`refbroker.security.sasl`).
"""

from __future__ import annotations

import secrets
from collections.abc import Generator
from typing import NamedTuple

from kclient.security.scram import MECHANISMS, scram_client
from kclient.security.secret import Secret

PLAIN = "PLAIN"
IMPLEMENTED = (PLAIN, *MECHANISMS)
NOT_YET = ("GSSAPI", "OAUTHBEARER", "AWS_MSK_IAM")
"""Mechanisms that brokers have and this version does not implement yet."""

Exchange = Generator[bytes, bytes, None]
"""Yields the messages of one side and receives those of the other."""


class SaslLogin(NamedTuple):
    """Who logs in, and how.

    Attributes:
        mechanism: its name.
        user, password: who logs in; the id and the HMAC of a delegation token.
        is_token: whether they are those of a delegation token.
    """

    mechanism: str
    user: str
    password: Secret
    is_token: bool = False

    def exchange(self) -> Exchange:
        """Return the client's side of a new exchange."""
        if self.mechanism == PLAIN:
            return _plain(self.user, self.password)
        nonce = secrets.token_urlsafe(24)
        return scram_client(MECHANISMS[self.mechanism], self.user, self.password, nonce, is_token=self.is_token)


def _plain(user: str, password: Secret) -> Exchange:
    yield f"\0{user}\0{password.reveal()}".encode()
