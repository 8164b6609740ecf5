"""The login of a client with AWS_MSK_IAM, and its settings.

Fetching credentials may take long, so it runs on the thread for logins. Two refusals of Amazon's brokers may pass, so
the client connects again: too many connections at once, and the other session name of a role that was assumed again
while a session is renewed. Source: Amazon's aws-msk-iam-auth.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from typing import NamedTuple

from kclient._version import __version__
from kclient.errors import ConfigError, DisconnectedError, SaslAuthenticationError
from kclient.security.aws.credentials import AwsSession, check_profile
from kclient.security.aws.signature import VERSION, signed_payload
from kclient.security.jaas import JaasModule
from kclient.security.sasl import AWS_MSK_IAM, StartedExchange

HANDLER = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
"""Amazon's class, which properties of Java name."""
_USER_AGENT = f"kclient/{__version__}"
_TRANSIENT = ("Too many connects", "Cannot change principals during re-authentication")
_PROFILE = "awsProfileName"
_WITHOUT_EFFECT = ("awsDebugCreds", "awsMaxRetries", "awsMaxBackOffTimeMs", "awsAddDefaultProviders")
"""Options of Amazon's module that change how it fetches credentials, and not which ones."""


class MskSettings(NamedTuple):
    """The settings of AWS_MSK_IAM on a client: a profile of the AWS command line; None for the default credentials."""

    profile: str | None = None

    def check(self) -> None:
        """Check that the profile can be used.

        Raises:
            ConfigError: that needs botocore.
        """
        check_profile(self.profile)


def msk_settings(module: JaasModule | None) -> MskSettings:
    """Return the settings.

    Parameters:
        module: IAMLoginModule of `sasl.jaas.config`.

    Raises:
        ConfigError: it has an option that is not implemented.
    """
    if module is None:
        return MskSettings()
    others = [name for name in module.options if name != _PROFILE and name not in _WITHOUT_EFFECT]
    if others:
        raise ConfigError(
            f"{others[0]} in sasl_jaas_config is not implemented; use {_PROFILE} with a profile of the AWS command "
            "line, which may have role_arn, role_session_name and region"
        )
    return MskSettings(module.text(_PROFILE))


class MskLogin:
    """The login of one client (`kclient.security.sasl.Login`).

    Parameters:
        settings: whose credentials to use.
        time_ms: milliseconds since the epoch.
    """

    mechanism = AWS_MSK_IAM
    awaits = "the login with AWS_MSK_IAM"
    options = "that the IAM policy allows kafka-cluster:Connect, and the region"

    def __init__(self, settings: MskSettings, time_ms: Callable[[], int]) -> None:
        self._session = AwsSession(settings.profile)
        self._time_ms = time_ms
        self._profile = settings.profile
        self._access_key = ""

    @property
    def who(self) -> str:
        """See Login."""
        if self._access_key:
            return f"the AWS access key {self._access_key}"
        return "the default credentials of AWS" if self._profile is None else f"the AWS profile {self._profile!r}"

    def start(self, host: str) -> StartedExchange:
        """See Login."""
        return StartedExchange(self._exchange(host.rstrip(".")), blocks=True)

    def _exchange(self, host: str) -> Generator[bytes, bytes, None]:
        credentials = self._session.credentials()
        self._access_key = credentials.access_key
        region = self._session.region(host)
        try:
            answer = yield signed_payload(host, region, credentials, _USER_AGENT, self._time_ms())
        except SaslAuthenticationError as refusal:
            self._session.forget()
            if any(text in refusal.message for text in _TRANSIENT):
                raise DisconnectedError(f"the login with {AWS_MSK_IAM} failed for now: {refusal.message}") from None
            raise
        _check(answer)


def _check(answer: bytes) -> None:
    """Check that a broker has accepted the client.

    Raises:
        SaslAuthenticationError: its message is not the expected one.
    """
    try:
        version = json.loads(answer)["version"]
    except (ValueError, TypeError, KeyError, RecursionError):
        version = None
    if version != VERSION:
        raise SaslAuthenticationError(f"the broker's response has no version {VERSION}, which that of Amazon MSK has")
