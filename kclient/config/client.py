"""The options that all clients have in common, and how a config is built.

Elsewhere: how values are checked (`options`), and the effect of each option, where it is used.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from kclient._misuse import is_coroutine_function, should_be_instance
from kclient._properties import read_properties
from kclient._unknown_options import unknown_option
from kclient.config.login import LoginSettings, login_of
from kclient.config.options import Option, check_value, hints, option_of, parse_value
from kclient.config.security import SecurityConfig
from kclient.config.security_checks import check_security
from kclient.errors import ConfigError

ConnectivityCallback = Callable[[Any], Any]
"""A function that takes a Connectivity."""

CLOSE_TIMEOUT = "How long close() without a timeout, or the end of a `with` block, may take."
"""What the option close_timeout_ms of every client says."""


class ClientConfig(SecurityConfig, frozen=True, kw_only=True):
    """Options that producers, consumers and admins have in common."""

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
        for name in self.__struct_fields__:
            check_value(name, annotations[name], getattr(self, name))
        if is_coroutine_function(self.on_connectivity_change):
            raise ConfigError(
                "on_connectivity_change must be a plain function: nothing would await a coroutine function"
            )
        check_security(self)

    @property
    def sasl(self) -> LoginSettings:
        """Who logs in with SASL, if `uses_sasl`.

        Raises:
            ConfigError: `sasl_jaas_config` cannot be used.
        """
        return login_of(self)

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
