"""Refusals of a login that a broker does not explain to the client, as in Kafka.

Elsewhere: what the client learns instead (`refbroker.security.sasl`).
"""

from __future__ import annotations

from kclient.errors import SaslAuthenticationError


class UnexplainedRefusalError(SaslAuthenticationError):
    """A login that a broker refuses, for its own log only: the reason may tell whether a user exists.

    It stands for Java's SaslException.
    """
