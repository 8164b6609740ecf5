"""Which options of security contradict each other, or have no effect without others.

Elsewhere: the options (`security`), and those of SASL among each other (`login`).
"""

from __future__ import annotations

import msgspec

from kclient.config.login import check_login
from kclient.config.security import SecurityConfig
from kclient.config.security_values import LISTENERS, SECRETS
from kclient.errors import ConfigError
from kclient.security.secret import Secret


def check_security(config: SecurityConfig) -> None:
    """Check that no option of security contradicts another one.

    Raises:
        ConfigError: one does; the message has both names.
    """
    for name in SECRETS:
        value = getattr(config, name)
        if isinstance(value, str):
            msgspec.structs.force_setattr(config, name, Secret(value))
        elif not (value is None or isinstance(value, Secret)):
            raise ConfigError(f"{name} must be str or Secret, not {type(value).__name__}")
    protocol = config.protocol
    if protocol not in LISTENERS:
        raise ConfigError(f"security_protocol must be one of {', '.join(LISTENERS)}, not {config.security_protocol!r}")
    ssl_options, sasl_options = _given(config, "ssl_"), _given(config, "sasl_")
    if ssl_options and not config.uses_tls:
        raise _ineffective(config, ssl_options[0], "SASL_SSL" if config.uses_sasl else "SSL")
    if sasl_options and not config.uses_sasl:
        raise _ineffective(config, sasl_options[0], "SASL_SSL" if config.uses_tls else "SASL_PLAINTEXT")
    if config.uses_sasl:
        check_login(config, sasl_options)
    if config.ssl_context is not None:
        # Not at the top: a client without TLS does not need it.
        import ssl

        if not isinstance(config.ssl_context, ssl.SSLContext):
            raise ConfigError(f"ssl_context must be an ssl.SSLContext or None, not {config.ssl_context!r}")
        if ssl_options != ["ssl_context"]:
            raise ConfigError(f"{ssl_options[0]} cannot be set together with ssl_context, which replaces it")
    config.tls.check()


def _given(config: SecurityConfig, prefix: str) -> list[str]:
    """Return the options with a prefix that are not at their defaults."""
    defaults = zip(config.__struct_fields__, config.__struct_defaults__, strict=True)
    return [name for name, value in defaults if name.startswith(prefix) and getattr(config, name) != value]


def _ineffective(config: SecurityConfig, option: str, other: str) -> ConfigError:
    return ConfigError(
        f'{option} has no effect with security_protocol="{config.protocol}"; set security_protocol="{other}"'
    )
