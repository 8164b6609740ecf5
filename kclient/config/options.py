"""What a config says of each of its options, and how values are checked and parsed by it.

Elsewhere: the options themselves (`client`, `producer`, `consumer`, `admin`).
"""

import types
import typing
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from kclient.errors import ConfigError

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


class Option(msgspec.Struct, frozen=True):
    """Metadata of an option besides its type and default.

    `minimum` and `maximum` are inclusive, and `special` is a number outside of these that is allowed as well;
    `choices` lists the only values allowed; `kafka` is the dotted name when it is not simply the Python name
    with dots; `secret` keeps a value of the wrong type out of errors.
    """

    doc: str
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    special: int | None = None
    choices: tuple[Any, ...] = ()
    kafka: str = ""
    secret: bool = False


def milliseconds(doc: str, minimum: int = 0, maximum: int = LONG_MAX) -> Option:
    """Return an option that is a duration."""
    return Option(doc, unit="ms", minimum=minimum, maximum=maximum)


def seconds(doc: str, minimum: int, maximum: int) -> Option:
    """Return an option that is a duration which Kafka has in seconds."""
    return Option(doc, unit="s", minimum=minimum, maximum=maximum)


def size(doc: str, minimum: int = 0, maximum: int = INT_MAX) -> Option:
    """Return an option that is a number of bytes."""
    return Option(doc, unit="bytes", minimum=minimum, maximum=maximum)


_HINTS: dict[type, dict[str, Any]] = {}


def hints(config: type) -> dict[str, Any]:
    """Return the annotations of a config class, by option."""
    if config not in _HINTS:
        _HINTS[config] = typing.get_type_hints(config, include_extras=True)
    return _HINTS[config]


def option_of(hint: Any) -> Option:
    """Return the option in an annotation."""
    return next(extra for extra in hint.__metadata__ if isinstance(extra, Option))


def _kinds(annotation: Any) -> tuple[Any, ...]:
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    return typing.get_args(annotation) if is_union else (annotation,)


def check_value(name: str, hint: Any, value: Any) -> None:
    """Check that the value of an option is allowed.

    Raises:
        ConfigError: it is not; the message says what is.
    """
    option = option_of(hint)
    kinds = _kinds(hint.__origin__)
    plain = {kind for kind in kinds if kind in (int, float, str, bool, types.NoneType)}
    if float in plain and type(value) is int:
        value = float(value)
    if plain and len(plain) == len(kinds) and type(value) not in plain:
        expected = " or ".join(sorted("None" if kind is types.NoneType else kind.__name__ for kind in plain))
        raise ConfigError(f"{name} must be {expected}, not {value!r}")
    # A .properties file written for Java contains names of classes.
    if any(typing.get_origin(kind) is Callable for kind in kinds) and not (value is None or callable(value)):
        given = f"a value of the type {type(value).__name__}" if option.secret else repr(value)
        raise ConfigError(f"{name} must be a function or None, not {given}")
    if typing.get_origin(hint.__origin__) is Sequence and (isinstance(value, str) or not isinstance(value, Sequence)):
        raise ConfigError(f"{name} must be a list of objects, not {value!r}")
    if option.choices and value not in option.choices:
        raise ConfigError(f"{name} must be one of {', '.join(map(repr, option.choices))}, not {value!r}")
    if isinstance(value, int | float) and not option.choices and (option.special is None or value != option.special):
        low, high = option.minimum, option.maximum
        if (low is not None and value < low) or (high is not None and value > high):
            unit = f" {option.unit}" if option.unit else ""
            special = "" if option.special is None else f", or {option.special}"
            # The largest number that Kafka's type can hold says nothing about a value that is too small.
            open_ended = high in (INT_MAX, LONG_MAX) and low is not None and value < low
            allowed = f"at least {low}" if open_ended else f"from {low} to {high}"
            raise ConfigError(f"{name} must be {allowed}{unit}{special}, not {value}")


def parse_value(name: str, hint: Any, text: str) -> Any:
    """Return the value that the text of a .properties file stands for; `check_value` checks it.

    Raises:
        ConfigError: the text is not of the option's type.
    """
    # As Kafka does: a .properties file keeps the blanks at the end of a line.
    text = text.strip()
    kinds = _kinds(hint.__origin__)
    if bool in kinds:
        if text.lower() not in ("true", "false"):
            raise ConfigError(f"{name} must be true or false, not {text!r}")
        return text.lower() == "true"
    if int in kinds:
        try:
            return int(text)
        except ValueError:
            if str not in kinds:
                raise ConfigError(f"{name} must be a whole number, not {text!r}") from None
    if float in kinds:
        try:
            return float(text)
        except ValueError:
            raise ConfigError(f"{name} must be a number, not {text!r}") from None
    return text
