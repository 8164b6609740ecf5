"""What the errors of Kerberos mean for the login of a client: whether to try again, and what to check.

Source: RFC 4120, section 7.5.9, MIT's krb5_err.et, and Kafka's KerberosError.
"""

from __future__ import annotations

from typing import NamedTuple

from kclient.errors import CredentialsUnavailableError, KafkaError, SaslAuthenticationError
from kclient.security.kerberos.library import KerberosFailureError
from kclient.security.sasl import ExplainedRefusalError

_FIRST = -1765328384
"""The number of the library for error 0 of the protocol."""
_NO_CREDENTIALS, _EXPIRED_CREDENTIALS = 7 << 16, 11 << 16
"""Errors of GSSAPI."""

_NETWORK = "check that it runs, and the section [realms] of krb5.conf"
_CLOCKS = "the clocks of this host, the broker and the KDC must agree to within five minutes"
_PRINCIPAL = "check the principal and the keytab in sasl_jaas_config"
_SERVICE = (
    "check sasl_kerberos_service_name, that the broker's principal has the host of its advertised.listeners, and "
    "dns_canonicalize_hostname, rdns and [domain_realm] in krb5.conf"
)
_REALM = "check the realm, and the sections [realms] and [domain_realm] of krb5.conf"


class Meaning(NamedTuple):
    """What to check, and whether the error may pass by itself."""

    advice: str
    is_retriable: bool = False


MEANINGS = {
    _FIRST + 6: Meaning(_PRINCIPAL),  # client not found
    _FIRST + 7: Meaning(_SERVICE),  # server not found
    _FIRST + 14: Meaning(
        "no common encryption type; check permitted_enctypes in krb5.conf, and the keys of the keytab"
    ),
    _FIRST + 18: Meaning("the account of the principal is locked or has expired"),
    _FIRST + 21: Meaning(_CLOCKS, is_retriable=True),  # client not yet valid
    _FIRST + 22: Meaning(_CLOCKS, is_retriable=True),  # server not yet valid
    _FIRST + 23: Meaning("the password of the principal has expired"),
    _FIRST + 24: Meaning("the keytab has old keys; write it again with `kadmin -q 'ktadd -k FILE PRINCIPAL'`"),
    _FIRST + 29: Meaning(_NETWORK, is_retriable=True),  # a service is not available
    _FIRST + 31: Meaning("the keys of the broker or of this keytab are old; write the keytab again with ktadd"),
    _FIRST + 32: Meaning("the ticket has expired; get another one with kinit, or use a keytab"),
    _FIRST + 33: Meaning(_CLOCKS, is_retriable=True),  # ticket not yet valid
    _FIRST + 34: Meaning(_CLOCKS, is_retriable=True),  # replay
    _FIRST + 37: Meaning(_CLOCKS),  # clock skew
    _FIRST + 68: Meaning(_REALM),  # wrong realm
    _FIRST + 154: Meaning(_REALM),  # KDC of the realm unknown
    _FIRST + 156: Meaning(_NETWORK, is_retriable=True),  # KDC not reachable
    _FIRST + 220: Meaning(_NETWORK, is_retriable=True),  # name of the KDC not resolved
}
"""The meaning of an error by its number."""


def explain(failure: KerberosFailureError, *, keytab: str | None, who: str) -> KafkaError:
    """Return the error of a login.

    Parameters:
        keytab: where the client's keys are; None if it uses tickets that something else gets.
        who: whose tickets the login uses.
    """
    text, meaning = failure.text, MEANINGS.get(failure.minor)
    if meaning is None and failure.major == _NO_CREDENTIALS:
        if keytab is None:
            meaning = Meaning("there is no valid ticket; get one with kinit, or use a keytab")
        else:
            # The library says that there is no ticket cache.
            text = f"{keytab} has no keys of {who}"
            meaning = Meaning("check principal and keyTab in sasl_jaas_config (`klist -k` shows the keys)")
    elif meaning is None and failure.major == _EXPIRED_CREDENTIALS:
        meaning = MEANINGS[_FIRST + 32]
    if meaning is None:
        return SaslAuthenticationError(text)
    if meaning.is_retriable:
        return CredentialsUnavailableError(f"{text}; {meaning.advice}")
    return ExplainedRefusalError(text, meaning.advice)
