"""Which clients may send requests about delegation tokens, for the four handlers. Source: Kafka's KafkaApis."""

from __future__ import annotations

from kclient.errors import UnsupportedByAuthenticationError
from refbroker.handlers.context import Context
from refbroker.handlers.services import TokenServices
from refbroker.security.principals import ANONYMOUS
from refbroker.settings.listeners import SecurityProtocol

ERROR_TIMESTAMP = -1
"""The time in a response that refuses a request."""


def check_may_manage_tokens(context: Context[TokenServices]) -> None:
    """Check that a client has proved who it is, and not with a token.

    Raises:
        UnsupportedByAuthenticationError: it has not.
    """
    connection = context.connection
    protocol = context.broker.config.listeners.protocol(connection.listener)
    login = connection.authenticator
    if (
        (login is not None and login.by_token)
        or protocol is SecurityProtocol.PLAINTEXT
        or (protocol is SecurityProtocol.SSL and connection.principal == ANONYMOUS)
    ):
        raise UnsupportedByAuthenticationError
