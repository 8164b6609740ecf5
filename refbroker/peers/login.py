"""The login of this node at another one: SaslHandshake, then SaslAuthenticate until both sides agree.

Elsewhere: the mechanisms (`kclient.security.sasl`), and whose login it is (`security`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kclient.errors import SaslAuthenticationError, UnsupportedSaslMechanismError
from kclient.protocol import Message
from kclient.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kclient.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kclient.security.sasl import PasswordLogin

Ask = Callable[[Message], Awaitable[Any]]


async def log_in(ask: Ask, login: PasswordLogin, host: str, node: str) -> int:
    """Log in on a new connection.

    Parameters:
        ask: sends a request, and returns its response.
        login: who logs in.
        host: the host of the node.
        node: the node and its listener, for errors.

    Returns:
        The milliseconds that the session lasts, 0 for no limit (KIP-368).

    Raises:
        UnsupportedSaslMechanismError: the listener does not offer the mechanism.
        SaslAuthenticationError: the node refuses the login, or does not prove that it knows the password.
    """
    handshake = await ask(SaslHandshakeRequest(mechanism=login.mechanism))
    if handshake.error_code == UnsupportedSaslMechanismError.code:
        offered = ", ".join(handshake.mechanisms) or "none"
        raise UnsupportedSaslMechanismError(
            f"the listener does not offer the SASL mechanism {login.mechanism}; it offers {offered}", broker=node
        )
    if handshake.error_code:
        raise _refused(login, f"SaslHandshake failed with error {handshake.error_code}", node)
    exchange = login.start(host).exchange
    lifetime_ms = 0
    message: bytes | None = next(exchange)
    is_last = False
    while message is not None:
        response = await ask(SaslAuthenticateRequest(auth_bytes=message))
        if response.error_code:
            raise _refused(login, response.error_message or f"error {response.error_code}", node)
        lifetime_ms = response.session_lifetime_ms
        if is_last:
            break
        try:
            message = exchange.send(bytes(response.auth_bytes))
        except StopIteration as end:
            message, is_last = end.value, True
        except SaslAuthenticationError as error:
            raise _refused(login, error.message, node) from None
    return lifetime_ms


def _refused(login: PasswordLogin, reason: str, node: str) -> SaslAuthenticationError:
    return SaslAuthenticationError(
        f"{login.who} could not log in with {login.mechanism}: {reason.rstrip('.')}; check the login in "
        f"sasl.jaas.config of this node",
        broker=node,
    )
