"""The login of a client with GSSAPI.

Each login takes its credentials from the credential store again, so that new tickets are used as soon as they exist.
All steps may ask the KDC, so they run on the thread for logins. A KDC that cannot be reached is asked again after a
second; until then further logins fail with the same error, so that they do not queue up. With a ticket cache named by
`sasl.jaas.config`, `kinit -R` renews its tickets in time, as Java's client does. Source: Kafka's KerberosLogin and
SaslClientAuthenticator.
"""

from __future__ import annotations

import logging
import math
import random
import subprocess
from collections.abc import Callable, Generator

from kclient.errors import CredentialsUnavailableError, KafkaError
from kclient.security.kerberos.exchange import Context, gssapi_client
from kclient.security.kerberos.failures import explain
from kclient.security.kerberos.library import KerberosFailureError, initiate, lifetime_of
from kclient.security.kerberos.settings import KerberosSettings
from kclient.security.sasl import GSSAPI, StartedExchange

_log = logging.getLogger(__name__)

_NEVER = math.inf
_RETRY_SECONDS = 1.0
_KINIT_SECONDS = 60.0
"""How long the command may take."""


class KerberosLogin:
    """The login of one client (`kclient.security.sasl.Login`); refreshed by the thread that computes logins.

    Parameters:
        settings: whose tickets to use.
        clock: seconds.
        rng: for the jitter.

    Attributes:
        refresh_at: when to call `refresh`, in seconds of the clock.
    """

    mechanism = GSSAPI
    awaits = "the login with GSSAPI"
    options = (
        "sasl_kerberos_service_name, that the broker's keytab has the current keys of its principal, and that the "
        "clocks agree"
    )

    def __init__(self, settings: KerberosSettings, *, clock: Callable[[], float], rng: random.Random) -> None:
        self.refresh_at = _NEVER
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._error: KafkaError | None = None
        self._retry_at = 0.0

    @property
    def who(self) -> str:
        """See Login."""
        return self._settings.who

    def start(self, host: str) -> StartedExchange:
        """See Login."""
        return StartedExchange(self._exchange(f"{self._settings.service}@{host.rstrip('.')}"), blocks=True)

    def _exchange(self, service: str) -> Generator[bytes, bytes, bytes]:
        try:
            return (yield from gssapi_client(self._initiate(service)))
        except KerberosFailureError as failure:
            error = explain(failure, keytab=self._settings.keytab, who=self.who)
        if isinstance(error, CredentialsUnavailableError):
            self._error, self._retry_at = error, self._clock() + _RETRY_SECONDS
        raise error

    def _initiate(self, service: str) -> Context:
        if self._error is not None and self._clock() < self._retry_at:
            raise self._error.without_frames()
        settings = self._settings
        context = initiate(service, settings.principal, settings.store)
        self._error = None
        if settings.renews:
            self._plan_renewal()
        return context

    def _plan_renewal(self) -> None:
        settings = self._settings
        lifetime = lifetime_of(settings.principal, settings.store)
        self.refresh_at = self._clock() + settings.policy.delay(lifetime, self._rng)

    def refresh(self) -> None:
        """Renew the tickets of the ticket cache. Blocks."""
        self.refresh_at = _NEVER
        settings = self._settings
        cache = [] if settings.ticket_cache is None else ["-c", settings.ticket_cache]
        command = [settings.kinit, "-R", *cache]
        try:
            subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, check=True, text=True, timeout=_KINIT_SECONDS
            )
            self._plan_renewal()
            _log.info("the tickets of %s were renewed", self.who)
        except (OSError, subprocess.SubprocessError, KerberosFailureError) as error:
            told = error.stderr if isinstance(error, subprocess.CalledProcessError) else error
            _log.warning(
                "the tickets of %s could not be renewed, and expire; use a keytab, or renew them with kinit (%s): %s",
                self.who, " ".join(command), f"{told}".strip(),
            )  # fmt: skip
