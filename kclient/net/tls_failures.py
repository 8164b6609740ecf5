"""What an error of OpenSSL means for the user of a client: which side refused what, and what to do.

Elsewhere: the connections on which they happen (`tls`).
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import Any, NamedTuple

from kclient._text import address
from kclient.config.security_values import WITHOUT_TLS
from kclient.errors import BrokerConnectionError, KafkaError, SslAuthenticationError
from kclient.security.certificates import read_certificate
from kclient.security.der import DerError

_REFUSALS = (
    "ALERT_ACCESS_DENIED",
    "ALERT_BAD_CERTIFICATE",
    "ALERT_CERTIFICATE",
    "ALERT_DECRYPT_ERROR",
    "ALERT_UNKNOWN_CA",
    "ALERT_UNSUPPORTED_CERTIFICATE",
)
"""The alerts of TLS by which a broker refuses the certificate of a client, or a client without one."""
_NOT_TLS = (
    "HTTP_REQUEST",
    "PACKET_LENGTH_TOO_LONG",
    "RECORD_LAYER_FAILURE",
    "UNKNOWN_PROTOCOL",
    "WRONG_VERSION_NUMBER",
)
_DER = 2
"""_ssl.ENCODING_DER."""
_HOST_MISMATCHES = (62, 64)
"""X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""
_UNKNOWN_ISSUERS = (2, 18, 19, 20, 21)
"""OpenSSL's codes of a chain that does not end at a trusted certificate."""


class TlsFailures(NamedTuple):
    """Describes what goes wrong with connections to one address.

    Attributes:
        host, port: the address.
        has_identity: whether this client has a certificate.
        protocol: the security protocol of this client.
    """

    host: str
    port: int
    has_identity: bool
    protocol: str = "SSL"

    def describe(self, error: ssl.SSLError, tls: ssl.SSLObject, shaking_hands: bool) -> KafkaError:
        """Return the error to raise for one of OpenSSL.

        Parameters:
            tls: the connection.
            shaking_hands: whether the handshake was not complete.
        """
        reason = (error.reason or str(error)).replace(" ", "_").upper()
        if isinstance(error, ssl.SSLCertVerificationError):
            return SslAuthenticationError(f"{self._server} is not trusted: {_verification_problem(error, tls)}")
        if any(refusal in reason for refusal in _REFUSALS):
            having = "the certificate of this client" if self.has_identity else "a client without a certificate"
            option = "ssl_keystore_location"
            advice = f"check {option}" if self.has_identity else f"set {option}"
            return SslAuthenticationError(f"{self._server} refused {having} ({_plain(reason)}); {advice}")
        if any(sign in reason for sign in _NOT_TLS) and shaking_hands:
            return self._unreachable(
                "it does not speak TLS", f'check the port, or set security_protocol="{WITHOUT_TLS[self.protocol]}"'
            )
        if shaking_hands:
            return SslAuthenticationError(
                f"the TLS handshake with {self._server} failed ({_plain(reason)}); check ssl_enabled_protocols and "
                f"ssl_cipher_suites{'' if self.has_identity else ', and whether the listener asks for a certificate'}"
            )
        return self._unreachable(
            f"TLS failed ({_plain(reason)})", "check the network between the client and the broker"
        )

    def closed_early(self) -> KafkaError:
        """Return the error of a peer that closed the connection during the handshake."""
        return self._unreachable(
            "the peer closed the connection during the TLS handshake",
            f'if this listener has no TLS, set security_protocol="{WITHOUT_TLS[self.protocol]}"; else check that it '
            "allows this client's versions of TLS, and whether it asks for a certificate",
        )

    @property
    def _server(self) -> str:
        return address(self.host, self.port)

    def _unreachable(self, reason: str, advice: str) -> BrokerConnectionError:
        return BrokerConnectionError(self.host, self.port, reason, advice=advice)


def _verification_problem(error: ssl.SSLCertVerificationError, tls: ssl.SSLObject) -> str:
    problem = error.verify_message or str(error)
    shown = _shown_certificate(tls)
    if error.verify_code in _HOST_MISMATCHES:
        advice = 'connect by a name in the certificate, or set ssl_endpoint_identification_algorithm=""'
    elif error.verify_code in _UNKNOWN_ISSUERS:
        advice = "set ssl_truststore_location to the certificate of its authority"
    else:
        advice = "the certificate must be replaced on the broker"
    return f"{problem}{f'; it has {shown}' if shown else ''}; {advice}"


def _shown_certificate(tls: ssl.SSLObject) -> str:
    """Describe the certificate of the broker, which was not verified."""
    own: Any = tls
    with suppress(AttributeError, DerError, IndexError, TypeError, ValueError):
        # Public since Python 3.13, as bytes.
        if hasattr(own, "get_unverified_chain"):
            return str(read_certificate(own.get_unverified_chain()[0]))
        return str(read_certificate(own._sslobj.get_unverified_chain()[0].public_bytes(_DER)))
    return ""


def _plain(reason: str) -> str:
    """Return OpenSSL's name of an error as text."""
    words = reason.lower().replace("_", " ")
    return words.split(" alert ", 1)[-1] if " alert " in words else words
