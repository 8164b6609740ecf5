"""Checks, parsing and display of single values, by type and by range in the notation of the tables.

As in Kafka, surrounding blanks are ignored, and a list is shown without duplicates. The error texts are Kafka's,
because some tools match on them. Elsewhere: constraints between settings (`cross_checks`).
"""

from __future__ import annotations

import enum
import math
import re
from decimal import Decimal

from kclient.errors import InvalidConfigurationError


class Type(enum.IntEnum):
    """The type of a setting, with the numbers of DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


INTEGER_BITS = {Type.SHORT: 16, Type.INT: 32, Type.LONG: 64}
HIDDEN = "[hidden]"
ANY = "*"
"""The range that contains all values of the type."""

Parsed = bool | int | float | str | tuple[str, ...]

_DOUBLE = re.compile(r"([+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))[fFdD]?", re.ASCII)
_DURATION = re.compile(
    r"([-+]?)P(?:([-+]?[0-9]+)D)?"
    r"(?:T(?=[-+0-9])(?:([-+]?[0-9]+)H)?(?:([-+]?[0-9]+)M)?(?:([-+]?[0-9]+(?:[.,][0-9]{0,9})?)S)?)?",
    re.ASCII | re.IGNORECASE,
)
_SECONDS = (86_400, 3_600, 60, 1)
_THROTTLED_REPLICA = re.compile(r"(?:[0-9]+:[0-9]+)?", re.ASCII)


def check(kind: Type, name: str, allowed: str, text: str) -> None:
    """Check a value against type and range.

    Parameters:
        kind: the type of the setting.
        name: the name of the setting, for the error.
        allowed: the range of the setting, in the notation of the tables.
        text: the value.

    Raises:
        InvalidConfigurationError: the value is not of the type, or out of range.
    """
    if kind is Type.LIST:
        _check_list(name, allowed, split_list(text))
        return
    text_or_secret = HIDDEN if kind in (Type.PASSWORD, Type.UNKNOWN) else text
    match kind:
        case Type.BOOLEAN:
            problem = _boolean_problem(text.strip())
        case Type.SHORT | Type.INT | Type.LONG:
            problem = _integer_problem(kind, allowed, text.strip())
        case Type.DOUBLE:
            problem = _double_problem(allowed, text.strip())
        case Type.STRING:
            problem = _text_problem(name, allowed, text.strip())
        case _:
            problem = None
    if problem is not None:
        raise _invalid(name, text_or_secret, problem)


def parsed(kind: Type, text: str) -> Parsed:
    """Return a checked value as a Python object."""
    match kind:
        case Type.BOOLEAN:
            return text.strip().lower() == "true"
        case Type.SHORT | Type.INT | Type.LONG:
            return int(text)
        case Type.DOUBLE:
            return _parse_double(text.strip())
        case Type.LIST:
            return tuple(parse_list(text))
        case _:
            return text.strip()


def shown(kind: Type, text: str) -> str:
    """Return a checked value as Kafka shows it, in normalized form."""
    match kind:
        case Type.BOOLEAN:
            return text.strip().lower()
        case Type.SHORT | Type.INT | Type.LONG:
            return str(int(text))
        case Type.DOUBLE:
            return _double_text(_parse_double(text.strip()))
        case Type.LIST:
            return ",".join(dict.fromkeys(split_list(text)))
        case Type.STRING | Type.CLASS:
            return text.strip()
        case _:
            return text


def split_list(text: str) -> list[str]:
    """Return the elements of a LIST value, including empty ones."""
    text = text.strip()
    return re.split(r"\s*,\s*", text) if text else []


def parse_list(text: str) -> list[str]:
    """Return the elements of a LIST value that are not empty."""
    return [part for part in split_list(text) if part]


def _invalid(name: str, value: str, problem: str) -> InvalidConfigurationError:
    return InvalidConfigurationError(f"Invalid value {value} for configuration {name}: {problem}")


def _boolean_problem(text: str) -> str | None:
    return None if text.lower() in ("true", "false") else "Expected value to be either true or false"


def _integer_problem(kind: Type, allowed: str, text: str) -> str | None:
    bits = INTEGER_BITS[kind]
    if not re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII) or not -(2 ** (bits - 1)) <= int(text) < 2 ** (bits - 1):
        return f"Not a number of type {kind.name}"
    return _bounds_problem(allowed, int(text))


def _double_problem(allowed: str, text: str) -> str | None:
    try:
        return _bounds_problem(allowed, _parse_double(text))
    except ValueError:
        return "Not a number of type DOUBLE"


def _parse_double(text: str) -> float:
    found = _DOUBLE.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return float(found[1])


def _double_text(value: float) -> str:
    """Return a number as Java writes it: 0.5, 1.0E10, 1.7976931348623157E308."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    first, *others = (str(digit) for digit in digits)
    fraction = "".join(others).rstrip("0") or "0"
    return f"{'-' if sign else ''}{first}.{fraction}E{exponent + len(others)}"


def _bounds_problem(allowed: str, value: float) -> str | None:
    if allowed == ANY:
        return None
    problems = []
    for alternative in allowed.split("|"):
        low, dots, high = alternative.partition("..")
        if not dots:
            if value == float(low):
                return None
            problems.append(f"equal to {low}")
        elif value < float(low):
            problems.append(f"Value must be at least {low}")
        elif high and value > float(high):
            problems.append(f"Value must be no more than {high}")
        else:
            return None
    if len(problems) == 1:
        return problems[0]
    low, _, high = allowed.split("|")[-1].partition("..")
    return f"Value must be between {low} and {high} or equal to {allowed.split('|')[0]}"


def _text_problem(name: str, allowed: str, text: str) -> str | None:
    if allowed == "nonempty":
        return None if text else "String must be non-empty"
    if allowed == "offset-reset":
        return _offset_reset_problem(name, text)
    return _choice_problem(allowed, text)


def _choice_problem(allowed: str, text: str) -> str | None:
    if allowed == ANY:
        return None
    choices = allowed.removeprefix("nocase:").split("|")
    if (text.upper() if allowed.startswith("nocase:") else text) in choices:
        return None
    return f"String must be one of: {', '.join(choices)}"


def _offset_reset_problem(name: str, text: str) -> str | None:
    kind, _, duration = text.partition(":")
    if text in ("earliest", "latest") or (kind == "by_duration" and _is_duration(duration)):
        return None
    return (
        f"Invalid value `{text}` for configuration {name}. The value must be either 'earliest', 'latest' or "
        "of the format 'by_duration:<PnDTnHnMn.nS>'."
    )


def _is_duration(text: str) -> bool:
    """Return whether a text is an ISO 8601 duration that is not negative."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()[1:]):
        return False
    sign, *parts = found.groups()
    amounts = (Decimal(part.replace(",", ".")) if part else 0 for part in parts)
    total = sum(amount * seconds for amount, seconds in zip(amounts, _SECONDS, strict=True))
    return total <= 0 if sign == "-" else total >= 0


def _check_list(name: str, allowed: str, parts: list[str]) -> None:
    if allowed == "throttled-replicas":
        _check_throttled_replicas(name, parts)
        return
    choices = allowed.removeprefix("nonempty").removeprefix(":") or "*"
    if allowed.startswith("nonempty") and not parts:
        valid = "any non-empty value" if choices == "*" else f"[{', '.join(choices.split('|'))}]"
        raise InvalidConfigurationError(f"Configuration '{name}' must not be empty. Valid values include: {valid}")
    for part in parts:
        if not part:
            raise InvalidConfigurationError(f"Configuration '{name}' values must not be empty.")
        problem = _choice_problem(choices, part)
        if problem is not None:
            raise _invalid(name, part, problem)


def _check_throttled_replicas(name: str, parts: list[str]) -> None:
    if "".join(parts) != "*" and not all(_THROTTLED_REPLICA.fullmatch(part) for part in parts):
        raise _invalid(
            name,
            f"[{', '.join(parts)}]",
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
        )
