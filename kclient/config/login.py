"""Who logs in with SASL, by the options of a client.

Elsewhere: the options (`security`), and the logins themselves (`kclient.security.sasl`, and `oauth`, `kerberos`
and `aws` beside it).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kclient.config.security import SecurityConfig
from kclient.errors import ConfigError
from kclient.security.aws.login import MskSettings, msk_settings
from kclient.security.jaas import JaasModule, parse_jaas
from kclient.security.kerberos.settings import KerberosSettings, kerberos_settings
from kclient.security.oauth.assertions import AssertionSettings
from kclient.security.oauth.settings import OAuthSettings
from kclient.security.oauth.source import RefreshPolicy
from kclient.security.sasl import AWS_MSK_IAM, GSSAPI, IMPLEMENTED, OAUTHBEARER, PLAIN, WITH_PASSWORD, PasswordLogin
from kclient.security.secret import Secret

LoginSettings = PasswordLogin | OAuthSettings | KerberosSettings | MskSettings
"""Who logs in, by each kind of mechanism."""

_PASSWORD_OPTIONS = ("sasl_username", "sasl_password")
_KERBEROS_OPTIONS = "sasl_kerberos_"
_AWS_OPTION = "sasl_client_callback_handler_class"
_ANY_MECHANISM = ("sasl_mechanism", "sasl_jaas_config")
_EXTENSION = "extension_"
_UNSECURED = "unsecuredLogin"
_UNSECURED_EXTENSION = f"{_UNSECURED}Extension_"
_DEFAULT_TIMEOUT_MS = 10_000


def check_login(config: SecurityConfig, given: Sequence[str]) -> None:
    """Check that the options say who logs in, and do not contradict each other.

    Parameters:
        given: the options of SASL that are set.

    Raises:
        ConfigError: they do not.
    """
    mechanism = config.sasl_mechanism
    if mechanism not in IMPLEMENTED:
        known = ", ".join(IMPLEMENTED)
        raise ConfigError(
            f'security_protocol="{config.protocol}" needs sasl_mechanism, one of {known}, not {mechanism!r}'
        )
    if mechanism == AWS_MSK_IAM and not config.uses_tls:
        # A reader of the signed message could use it for 15 minutes.
        raise ConfigError(f'sasl_mechanism={mechanism} needs security_protocol="SASL_SSL"')
    uses_password = mechanism in WITH_PASSWORD
    others = [name for name in given if not _has_effect(name, mechanism)]
    if others:
        raise ConfigError(f"{others[0]} has no effect with sasl_mechanism={mechanism}")
    if uses_password:
        has_both = config.sasl_username is not None and config.sasl_password is not None
        if config.sasl_jaas_config is not None and any(name in given for name in _PASSWORD_OPTIONS):
            raise ConfigError("only one of sasl_jaas_config and sasl_username with sasl_password can be set")
        if config.sasl_jaas_config is None and not has_both:
            raise ConfigError(f"sasl_mechanism={mechanism} needs sasl_username and sasl_password, or sasl_jaas_config")
    login_of(config).check()


def _has_effect(option: str, mechanism: str) -> bool:
    if option in _ANY_MECHANISM:
        return True
    if option in _PASSWORD_OPTIONS:
        return mechanism in WITH_PASSWORD
    if option == _AWS_OPTION:
        return mechanism == AWS_MSK_IAM
    return mechanism == (GSSAPI if option.startswith(_KERBEROS_OPTIONS) else OAUTHBEARER)


def login_of(config: SecurityConfig) -> LoginSettings:
    """Return who logs in.

    Raises:
        ConfigError: `sasl_jaas_config` cannot be used.
    """
    mechanism = config.sasl_mechanism or ""
    jaas = None if config.sasl_jaas_config is None else Secret(config.sasl_jaas_config)
    if mechanism == OAUTHBEARER:
        return _oauth_settings(config, None if jaas is None else _module(jaas, mechanism, "OAuthBearerLoginModule"))
    if mechanism == GSSAPI:
        return _kerberos_settings(config, None if jaas is None else _module(jaas, mechanism, "Krb5LoginModule"))
    if mechanism == AWS_MSK_IAM:
        return msk_settings(None if jaas is None else _module(jaas, mechanism, "IAMLoginModule"))
    if jaas is None:
        return PasswordLogin(mechanism, config.sasl_username or "", Secret(config.sasl_password or ""))
    module = _module(jaas, mechanism, "PlainLoginModule" if mechanism == PLAIN else "ScramLoginModule")
    user, password = module.text("username"), module.options.get("password")
    if user is None or password is None:
        raise ConfigError("sasl_jaas_config needs the options username and password")
    return PasswordLogin(mechanism, user, password, (module.text("tokenauth") or "").lower() == "true")


def _module(jaas: Secret, mechanism: str, expected: str) -> JaasModule:
    module = parse_jaas(jaas, "sasl_jaas_config")
    if module.name != expected:
        raise ConfigError(f"sasl_jaas_config has {module.name}; sasl_mechanism={mechanism} needs {expected}")
    return module


def _kerberos_settings(config: SecurityConfig, module: JaasModule | None) -> KerberosSettings:
    policy = RefreshPolicy(
        config.sasl_kerberos_ticket_renew_window_factor,
        config.sasl_kerberos_ticket_renew_jitter,
        config.sasl_kerberos_min_time_before_relogin / 1000,
        buffer=0.0,
    )
    return kerberos_settings(config.sasl_kerberos_service_name, module, config.sasl_kerberos_kinit_cmd, policy)


def _oauth_settings(config: SecurityConfig, module: JaasModule | None) -> OAuthSettings:
    options = {} if module is None else module.options
    timeouts = (config.sasl_login_connect_timeout_ms, config.sasl_login_read_timeout_ms)
    given_timeouts = [timeout for timeout in timeouts if timeout is not None]
    secret = config.sasl_oauthbearer_client_credentials_client_secret
    passphrase = config.sasl_oauthbearer_assertion_private_key_passphrase
    extensions = {}
    for name, value in options.items():
        for prefix in (_EXTENSION, _UNSECURED_EXTENSION):
            if name.startswith(prefix):
                extensions[name.removeprefix(prefix)] = value.reveal()
    return OAuthSettings(
        provider=config.sasl_oauth_token_provider,
        unsecured=_unsecured_claims(options),
        unsecured_seconds=int(_number(options.get(f"{_UNSECURED}LifetimeSeconds", Secret("3600")))),
        token_endpoint_url=config.sasl_oauthbearer_token_endpoint_url,
        retriever=config.sasl_oauthbearer_jwt_retriever_class,
        scope=config.sasl_oauthbearer_scope or (module.text("scope") if module else None),
        client_id=config.sasl_oauthbearer_client_credentials_client_id or (module.text("clientId") if module else None),
        client_secret=Secret(secret) if secret is not None else options.get("clientSecret"),
        header_urlencode=config.sasl_oauthbearer_header_urlencode,
        assertion=AssertionSettings(
            file=config.sasl_oauthbearer_assertion_file,
            private_key_file=config.sasl_oauthbearer_assertion_private_key_file,
            private_key_passphrase=None if passphrase is None else Secret(passphrase),
            algorithm=config.sasl_oauthbearer_assertion_algorithm,
            template_file=config.sasl_oauthbearer_assertion_template_file,
            audience=config.sasl_oauthbearer_assertion_claim_aud,
            issuer=config.sasl_oauthbearer_assertion_claim_iss,
            subject=config.sasl_oauthbearer_assertion_claim_sub,
            lifetime_seconds=config.sasl_oauthbearer_assertion_claim_exp_seconds,
            backdate_seconds=config.sasl_oauthbearer_assertion_claim_nbf_seconds,
            with_id=config.sasl_oauthbearer_assertion_claim_jti_include,
        ),
        extensions=extensions,
        ca_location=config.sasl_oauthbearer_ca_location,
        timeout=max(given_timeouts, default=_DEFAULT_TIMEOUT_MS) / 1000,
        policy=RefreshPolicy(
            config.sasl_login_refresh_window_factor,
            config.sasl_login_refresh_window_jitter,
            config.sasl_login_refresh_min_period_seconds,
            config.sasl_login_refresh_buffer_seconds,
            config.sasl_login_retry_backoff_ms / 1000,
            max(config.sasl_login_retry_backoff_ms, config.sasl_login_retry_backoff_max_ms) / 1000,
        ),
    )


def _unsecured_claims(options: dict[str, Secret]) -> dict[str, Any] | None:
    """Return the claims of an unsecured token; None if the JAAS options ask for none."""
    claims: dict[str, Any] = {}
    for name, value in options.items():
        kind, _, claim = name.removeprefix(_UNSECURED).partition("Claim_")
        if not name.startswith(_UNSECURED) or not claim:
            continue
        text = value.reveal()
        if claim in ("iat", "exp"):
            raise ConfigError(f"sasl_jaas_config cannot set the claim {claim}, which is computed")
        if kind == "List":
            # Kafka's form: the first character separates the values.
            claims[claim] = text[1:].split(text[0]) if len(text) > 1 else []
        else:
            claims[claim] = _number(value) if kind == "Number" else text
    return claims or None


def _number(value: Secret) -> float:
    try:
        return float(value.reveal())
    except ValueError:
        raise ConfigError("sasl_jaas_config: a number is expected for unsecuredLogin...") from None
