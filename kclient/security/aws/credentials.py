"""Where the credentials and the region for AWS_MSK_IAM come from.

With the package botocore, they come from its chain: the environment, the files of the AWS command line with their
profiles and roles, containers, and the metadata of an instance. botocore replaces temporary credentials in time.
Without it, they come from the environment only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from kclient.errors import ConfigError, CredentialsUnavailableError
from kclient.security.aws.signature import AwsCredentials
from kclient.security.sasl import ExplainedRefusalError
from kclient.security.secret import Secret

_ACCESS_KEY, _SECRET_KEY, _TOKEN = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_AMAZON_HOST = re.compile(r".*\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?")
_REGION = re.compile(r"[a-z]{2,4}(?:-[a-z]{2,4})?-(?:central|(?:north|south)?(?:east|west)|north|south)-\d{1,2}")
_SOURCES = f"set {_ACCESS_KEY} and {_SECRET_KEY}"
_CHAIN = "a profile, or a role of the container or instance"
_NOT_INSTALLED = "pip install 'kclient[msk]' for profiles, roles, containers and instances"


class AwsSession:
    """The credentials of one client. Its methods block.

    Parameters:
        profile: a profile of the files of the AWS command line; None for the default.
        environment: the variables of the process.
    """

    def __init__(self, profile: str | None, environment: Mapping[str, str] = os.environ) -> None:
        self._profile = profile
        self._environment = environment
        self._session: Any = None
        self._credentials: Any = None

    def credentials(self) -> AwsCredentials:
        """Return the current credentials.

        Raises:
            CredentialsUnavailableError: they could not be fetched for now.
            ExplainedRefusalError: this machine has no credentials.
        """
        botocore = _botocore()
        if botocore is None:
            return self._from_environment()
        try:
            if self._session is None:
                self._session = botocore.session.Session(profile=self._profile)
            if self._credentials is None:
                self._credentials = self._session.get_credentials()
            found = None if self._credentials is None else self._credentials.get_frozen_credentials()
        except botocore.exceptions.ProfileNotFound as error:
            raise ExplainedRefusalError(f"{error}", "check awsProfileName in sasl_jaas_config") from None
        except botocore.exceptions.BotoCoreError as error:
            raise CredentialsUnavailableError(f"no credentials of AWS could be fetched: {error}") from None
        if found is None:
            raise ExplainedRefusalError("there are no credentials of AWS", f"{_SOURCES}, or use {_CHAIN}")
        return AwsCredentials(found.access_key, Secret(found.secret_key), Secret(found.token) if found.token else None)

    def forget(self) -> None:
        """Fetch the credentials again for the next login, since a broker has refused them."""
        self._session = self._credentials = None

    def _from_environment(self) -> AwsCredentials:
        access_key, secret_key = self._environment.get(_ACCESS_KEY), self._environment.get(_SECRET_KEY)
        if not access_key or not secret_key:
            raise ExplainedRefusalError("there are no credentials of AWS", f"{_SOURCES}, or {_NOT_INSTALLED}")
        token = self._environment.get(_TOKEN)
        return AwsCredentials(access_key, Secret(secret_key), Secret(token) if token else None)

    def region(self, host: str) -> str:
        """Return the region of a broker: that in the name of its host, else of the environment, else of the profile.

        Raises:
            ExplainedRefusalError: no region is known.
        """
        amazon = _AMAZON_HOST.fullmatch(host)
        if amazon is not None:
            return amazon[1]
        found = next((label for label in host.split(".") if _REGION.fullmatch(label)), None)
        found = found or next(filter(None, map(self._environment.get, _REGIONS)), None)
        if found is None and self._session is not None:
            found = self._session.get_config_variable("region")
        if not found:
            raise ExplainedRefusalError(f"the name of the host {host} has no region of AWS", f"set {_REGIONS[0]}")
        return found


def check_profile(profile: str | None) -> None:
    """Check that a profile can be used.

    Raises:
        ConfigError: that needs botocore.
    """
    if profile is not None and _botocore() is None:
        raise ConfigError(f"awsProfileName in sasl_jaas_config needs botocore: {_NOT_INSTALLED}")


def _botocore() -> Any:
    """Return the package; None if it is not installed."""
    try:
        import botocore.exceptions
        import botocore.session
    except ImportError:
        return None
    return botocore
