"""The options that all clients have in common, and how a config is built.

Elsewhere: how values are checked (`options`), and the effect of each option, where it is used.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

import msgspec

from kclient._misuse import is_coroutine_function, should_be_instance
from kclient._properties import read_properties
from kclient._unknown_options import unknown_option
from kclient.config.options import Option, check_value, hints, milliseconds, option_of, parse_value, size
from kclient.config.security import (
    LISTENERS,
    SECRETS,
    SSL_DEFAULTS,
    STORE_TYPES,
    login_from_jaas,
    names,
    secret,
)
from kclient.errors import ConfigError
from kclient.security.sasl import IMPLEMENTED, NOT_YET, SaslLogin
from kclient.security.secret import Secret
from kclient.security.settings import TlsSettings

ConnectivityCallback = Callable[[Any], Any]
"""A function that takes a Connectivity."""

CLOSE_TIMEOUT = "How long close() without a timeout, or the end of a `with` block, may take."
"""What the option close_timeout_ms of every client says."""


class ClientConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Options that producers, consumers and admins have in common."""

    bootstrap_servers: Annotated[
        str | Sequence[str],
        Option(
            'Brokers to connect to first: "host:port,host:port" or a sequence of them. The port is 9092 if it is '
            "missing."
        ),
    ] = "localhost:9092"
    client_id: Annotated[str, Option("The client's name in the logs, quotas and metrics of brokers.")] = "kclient"
    client_dns_lookup: Annotated[
        str,
        Option(
            "How a host name with several addresses is used.",
            choices=("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        ),
    ] = "use_all_dns_ips"
    request_timeout_ms: Annotated[int, milliseconds("How long to wait for the response to one request.", 1)] = 30_000
    reconnect_backoff_ms: Annotated[int, milliseconds("The first wait before connecting to a broker again.")] = 50
    reconnect_backoff_max_ms: Annotated[int, milliseconds("The longest wait before connecting again.")] = 1_000
    retry_backoff_ms: Annotated[int, milliseconds("The first wait before a failed request is retried.")] = 100
    retry_backoff_max_ms: Annotated[int, milliseconds("The longest wait before a failed request is retried.")] = 1_000
    socket_connection_setup_timeout_ms: Annotated[
        int, milliseconds("How long the first attempts to set up a connection may take.", 1)
    ] = 10_000
    socket_connection_setup_timeout_max_ms: Annotated[
        int, milliseconds("How long setting up a connection may take after several failures in a row.", 1)
    ] = 30_000
    connections_max_idle_ms: Annotated[
        int, milliseconds("Idle connections are closed after this long; -1 for never.", -1)
    ] = 540_000
    metadata_max_age_ms: Annotated[int, milliseconds("The longest time between two refreshes of the metadata.", 1)] = (
        300_000
    )
    metadata_recovery_strategy: Annotated[
        str, Option("What to do when no known broker responds (KIP-899).", choices=("rebootstrap", "none"))
    ] = "rebootstrap"
    metadata_recovery_rebootstrap_trigger_ms: Annotated[
        int, milliseconds("Start again from bootstrap_servers after this long without metadata (KIP-1102).")
    ] = 300_000
    send_buffer_bytes: Annotated[int, size("SO_SNDBUF of the sockets; -1 for the system's default.", -1)] = -1
    receive_buffer_bytes: Annotated[int, size("SO_RCVBUF of the sockets; -1 for the system's default.", -1)] = -1
    security_protocol: Annotated[
        str,
        Option('How connections are secured: "PLAINTEXT", "SSL" (TLS), "SASL_PLAINTEXT" or "SASL_SSL", in any case.'),
    ] = "PLAINTEXT"
    ssl_truststore_location: Annotated[
        str | None,
        Option("A file of the certificates to trust, PEM or PKCS12; None for those of the system."),
    ] = None
    ssl_truststore_certificates: Annotated[str | None, Option("The certificates to trust, as PEM text.")] = None
    ssl_truststore_type: Annotated[
        str | None,
        Option("Accepted as in Java and not needed: the format is recognized by the content.", choices=STORE_TYPES),
    ] = None
    ssl_truststore_password: Annotated[str | Secret | None, Option("The password of a PKCS12 truststore.")] = None
    ssl_keystore_location: Annotated[
        str | None,
        Option("A file of this client's certificate chain and key, PEM or PKCS12, for brokers that ask for one."),
    ] = None
    ssl_keystore_type: Annotated[
        str | None,
        Option("Accepted as in Java and not needed: the format is recognized by the content.", choices=STORE_TYPES),
    ] = None
    ssl_keystore_password: Annotated[str | Secret | None, Option("The password of a PKCS12 keystore.")] = None
    ssl_keystore_certificate_chain: Annotated[
        str | None, Option("This client's certificate chain, as PEM text or the path of a PEM file.")
    ] = None
    ssl_keystore_key: Annotated[
        str | Secret | None, Option("The key of the certificate, as PEM text or the path of a PEM file.")
    ] = None
    ssl_key_password: Annotated[str | Secret | None, Option("The password of the key.")] = None
    ssl_endpoint_identification_algorithm: Annotated[
        str,
        Option(
            'Whether the certificate must be for the host that the client connects to: "https", or "" for any host.',
            choices=("https", ""),
        ),
    ] = "https"
    ssl_enabled_protocols: Annotated[
        str | Sequence[str], Option("The versions of TLS to allow: names, or one string with commas between them.")
    ] = ("TLSv1.2", "TLSv1.3")
    ssl_cipher_suites: Annotated[
        str | Sequence[str],
        Option("The cipher suites to allow, by Java's or OpenSSL's names; none for OpenSSL's choice."),
    ] = ()
    ssl_context: Annotated[
        Any, Option("An ssl.SSLContext made by the application, instead of the other ssl options; None for theirs.")
    ] = None
    sasl_mechanism: Annotated[
        str | None, Option('How the client logs in: "PLAIN", "SCRAM-SHA-256" or "SCRAM-SHA-512".')
    ] = None
    sasl_username: Annotated[str | None, Option("The user that logs in.")] = None
    sasl_password: Annotated[str | Secret | None, Option("The password of the user.")] = None
    sasl_jaas_config: Annotated[
        str | Secret | None,
        Option("User and password as in Java: MODULE required username=... password=...;, instead of the two above."),
    ] = None
    on_connectivity_change: Annotated[
        ConnectivityCallback | None,
        Option(
            "Called with a Connectivity, once when no broker is reachable, and once when one is again: in an "
            "async client's event loop, in the thread of a producer's delivery callbacks, else in a thread of its own."
        ),
    ] = None

    def __post_init__(self) -> None:
        annotations = hints(type(self))
        servers = self.bootstrap_servers
        if not isinstance(servers, Sequence):
            raise ConfigError(f'bootstrap_servers must be "host:port,host:port" or a sequence of them, not {servers!r}')
        for name in SECRETS:
            value = getattr(self, name)
            if isinstance(value, str):
                msgspec.structs.force_setattr(self, name, Secret(value))
            elif not (value is None or isinstance(value, Secret)):
                raise ConfigError(f"{name} must be str or Secret, not {type(value).__name__}")
        for name in self.__struct_fields__:
            check_value(name, annotations[name], getattr(self, name))
        if is_coroutine_function(self.on_connectivity_change):
            raise ConfigError(
                "on_connectivity_change must be a plain function: nothing would await a coroutine function"
            )
        self._check_security()

    def _check_security(self) -> None:
        protocol = self.protocol
        if protocol not in LISTENERS:
            raise ConfigError(
                f"security_protocol must be one of {', '.join(LISTENERS)}, not {self.security_protocol!r}"
            )
        given = [name for name in self.__struct_fields__ if name.startswith("ssl_")]
        given = [name for name in given if getattr(self, name) != SSL_DEFAULTS.get(name)]
        if given and not self.uses_tls:
            other = "SASL_SSL" if protocol.startswith("SASL") else "SSL"
            raise ConfigError(
                f'{given[0]} has no effect with security_protocol="{protocol}"; set security_protocol="{other}"'
            )
        self._check_sasl()
        if self.ssl_context is not None:
            # Not at the top: a client without TLS does not need it.
            import ssl

            if not isinstance(self.ssl_context, ssl.SSLContext):
                raise ConfigError(f"ssl_context must be an ssl.SSLContext or None, not {self.ssl_context!r}")
            if given != ["ssl_context"]:
                raise ConfigError(f"{given[0]} cannot be set together with ssl_context, which replaces it")
        self.tls.check()

    def _check_sasl(self) -> None:
        protocol, mechanism = self.protocol, self.sasl_mechanism
        given = [
            name for name in self.__struct_fields__ if name.startswith("sasl_") and getattr(self, name) is not None
        ]
        if not self.uses_sasl:
            if given:
                other = "SASL_SSL" if protocol == "SSL" else "SASL_PLAINTEXT"
                raise ConfigError(
                    f'{given[0]} has no effect with security_protocol="{protocol}"; set security_protocol="{other}"'
                )
            return
        if mechanism in NOT_YET:
            raise ConfigError(f"sasl_mechanism={mechanism} is not implemented yet; use {', '.join(IMPLEMENTED)}")
        if mechanism not in IMPLEMENTED:
            known = ", ".join(IMPLEMENTED)
            raise ConfigError(f'security_protocol="{protocol}" needs sasl_mechanism, one of {known}, not {mechanism!r}')
        if self.sasl_jaas_config is not None and (self.sasl_username is not None or self.sasl_password is not None):
            raise ConfigError("only one of sasl_jaas_config and sasl_username with sasl_password can be set")
        if self.sasl_jaas_config is None and (self.sasl_username is None or self.sasl_password is None):
            raise ConfigError(f"sasl_mechanism={mechanism} needs sasl_username and sasl_password, or sasl_jaas_config")
        _ = self.sasl

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        """Whether the client logs in with SASL."""
        return self.protocol.startswith("SASL_")

    @property
    def sasl(self) -> SaslLogin:
        """Who logs in with SASL, if `uses_sasl`.

        Raises:
            ConfigError: `sasl_jaas_config` cannot be used.
        """
        mechanism, jaas = self.sasl_mechanism or "", secret(self.sasl_jaas_config)
        if jaas is not None:
            return login_from_jaas(jaas, mechanism)
        return SaslLogin(mechanism, self.sasl_username or "", Secret(self.sasl_password or ""))

    @property
    def protocol(self) -> str:
        """The security protocol in capitals."""
        return self.security_protocol.upper()

    @property
    def tls(self) -> TlsSettings:
        """The options of TLS, as `kclient.security` takes them."""
        return TlsSettings(
            option=str,
            truststore_location=self.ssl_truststore_location,
            truststore_certificates=self.ssl_truststore_certificates,
            truststore_password=secret(self.ssl_truststore_password),
            keystore_location=self.ssl_keystore_location,
            keystore_password=secret(self.ssl_keystore_password),
            keystore_certificate_chain=self.ssl_keystore_certificate_chain,
            keystore_key=secret(self.ssl_keystore_key),
            key_password=secret(self.ssl_key_password),
            enabled_protocols=names(self.ssl_enabled_protocols),
            cipher_suites=names(self.ssl_cipher_suites),
        )

    @property
    def label(self) -> str:
        """The client's name in log lines and warnings, such as "producer 'billing'"."""
        return f"{type(self).__name__.removesuffix('Config').lower()} {self.client_id!r}"

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Build a config from Python names.

        Raises:
            ConfigError: an option does not exist (the message names the nearest one) or its value is invalid.
        """
        unknown = [name for name in options if name not in cls.__struct_fields__]
        if unknown:
            raise ConfigError(_unknown(unknown[0], cls, {name: name for name in cls.__struct_fields__}))
        return cls(**options)

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any] | str | os.PathLike[str], **options: Any) -> Self:
        """Build a config from Kafka's dotted names: a mapping, or the path of a .properties file.

        Values may be strings, as in a file; keyword arguments use Python names and take precedence.
        """
        if not isinstance(properties, Mapping):
            properties = read_properties(Path(properties))
        annotations = hints(cls)
        dotted_names = {dotted_name(cls, name): name for name in cls.__struct_fields__}
        converted: dict[str, Any] = {}
        for dotted, value in properties.items():
            if dotted not in dotted_names:
                raise ConfigError(_unknown(dotted, cls, {name: dotted for dotted, name in dotted_names.items()}))
            name = dotted_names[dotted]
            converted[name] = parse_value(dotted, annotations[name], value) if isinstance(value, str) else value
        return cls.from_options({**converted, **options})


def options_of(config: type[ClientConfig]) -> dict[str, tuple[Option, Any]]:
    """Return every option of a config class with its description and default, for documentation."""
    defaults = dict(zip(config.__struct_fields__, config.__struct_defaults__, strict=True))
    return {name: (option_of(hint), defaults[name]) for name, hint in hints(config).items() if name in defaults}


def dotted_name(config: type[ClientConfig], name: str) -> str:
    """Return Kafka's own name of an option."""
    return option_of(hints(config)[name]).kafka or name.replace("_", ".")


def check_interceptors(interceptors: Sequence[Any], first: str, second: str) -> None:
    """Check that each interceptor is an object with one of two methods.

    Raises:
        ConfigError: one is not.
    """
    for interceptor in interceptors:
        if isinstance(interceptor, type):
            raise ConfigError(should_be_instance("an interceptor", interceptor))
        if not (hasattr(interceptor, first) or hasattr(interceptor, second)):
            raise ConfigError(f"an interceptor has {first}, {second} or both, not {interceptor!r}")


def _unknown(name: str, config: type[ClientConfig], spelling: Mapping[str, str]) -> str:
    others = {
        f"{kind.__name__.removesuffix('Config').lower()}s": kind.__struct_fields__
        for kind in ClientConfig.__subclasses__()
        if kind is not config
    }
    return unknown_option(name, spelling, others)
