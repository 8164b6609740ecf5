"""GSSAPI of a listener: the tickets that the broker accepts, and who they are for.

Elsewhere: the messages and the calls of Kerberos (`kclient.security.kerberos`), and the rules that make names
(`kerberos_names`). Source: Kafka's SaslServerAuthenticator, KerberosError and DefaultKafkaPrincipalBuilder.
"""

from __future__ import annotations

from collections.abc import Callable

from kclient.errors import DisconnectedError
from kclient.security.kerberos.exchange import Context, gssapi_server
from kclient.security.kerberos.failures import MEANINGS
from kclient.security.kerberos.library import KerberosFailureError
from kclient.security.refusals import UnexplainedRefusalError
from kclient.security.sasl import GSSAPI
from refbroker.security.kerberos_names import KerberosNames
from refbroker.security.principals import NoMatchingRuleError
from refbroker.security.sasl import Login, Server


def kerberos_server(accept: Callable[[], Context], names: KerberosNames) -> Server:
    """Yield an empty message, then the broker's, and return the login. Steps block for files.

    Kafka lets a client log in whose principal has no name by the rules, and closes the connection at its next request;
    here that login fails. As in Kafka, a session does not end with its ticket.

    Parameters:
        accept: returns a new security context.
        names: makes the user's name.

    Raises:
        UnexplainedRefusalError: the client is refused.
        DisconnectedError: the client should try again, such as for a ticket that is not yet valid.
    """
    try:
        principal = yield from gssapi_server(accept)
        return Login(names.user(principal), None)
    except KerberosFailureError as failure:
        meaning = MEANINGS.get(failure.minor)
        if meaning is not None and meaning.is_retriable:
            raise DisconnectedError(f"its login with {GSSAPI} failed: {failure.text}") from None
        raise UnexplainedRefusalError(failure.text) from failure
    except NoMatchingRuleError as error:
        raise UnexplainedRefusalError(str(error)) from error
