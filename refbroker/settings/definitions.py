"""What a setting is: its type, default and range, and how a value is checked.

A line of a table is `name type default range flags`:

    range   `*` any value; `1..`, `0..9` bounds; `a|b` one of these (for a list: all of these); alternatives
            may be mixed, as `-1|1..9`; `nocase:a|b` in any case; `nonempty`
    flags   `A` this broker acts on it; `D` it can be changed while the broker runs; `-` neither
    default `null` for none, `""` for empty text

Errors read as Kafka's do, which some tools look for.
"""

from __future__ import annotations

import difflib
import enum
import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from kclient.errors import InvalidConfigurationError


class Type(enum.IntEnum):
    """Types of settings; the numbers are those of DescribeConfigs."""

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


class Setting(NamedTuple):
    """One setting.

    Attributes:
        name: Kafka's, dotted.
        type: of its value.
        default: as text, None when it has none.
        range: in the notation of the tables.
        acted_on: False when the value is only stored.
        dynamic: whether it can be changed while the broker runs.
    """

    name: str
    type: Type
    default: str | None
    range: str
    acted_on: bool
    dynamic: bool

    @property
    def sensitive(self) -> bool:
        """Whether the value must not be shown."""
        return self.type is Type.PASSWORD

    def check(self, text: str) -> None:
        """Check a value.

        Raises:
            InvalidConfigurationError: it is not of the type, or out of range.
        """
        trouble = _CHECKS[self.type](self, text.strip() if self.type is not Type.PASSWORD else text)
        if trouble is not None:
            shown = "[hidden]" if self.sensitive else text
            raise InvalidConfigurationError(f"Invalid value {shown} for configuration {self.name}: {trouble}")


def parse_list(text: str) -> list[str]:
    """The elements of a LIST value."""
    return [part.strip() for part in text.split(",") if part.strip()]


def _check_boolean(setting: Setting, text: str) -> str | None:
    return None if text.lower() in ("true", "false") else "Expected value to be either true or false"


def _check_integer(setting: Setting, text: str) -> str | None:
    bits = INTEGER_BITS[setting.type]
    if not re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII) or not -(2 ** (bits - 1)) <= int(text) < 2 ** (bits - 1):
        return f"Not a number of type {setting.type.name}"
    return _check_bounds(setting, int(text))


def _check_double(setting: Setting, text: str) -> str | None:
    try:
        value = float(text)
    except ValueError:
        return "Not a number of type DOUBLE"
    return _check_bounds(setting, value)


def _check_bounds(setting: Setting, value: float) -> str | None:
    if setting.range == "*":
        return None
    troubles = []
    for alternative in setting.range.split("|"):
        low, dots, high = alternative.partition("..")
        if not dots:
            if value == float(low):
                return None
            troubles.append(f"equal to {low}")
        elif value < float(low):
            troubles.append(f"Value must be at least {low}")
        elif high and value > float(high):
            troubles.append(f"Value must be no more than {high}")
        else:
            return None
    if len(troubles) == 1:
        return troubles[0]
    low, _, high = setting.range.split("|")[-1].partition("..")
    return f"Value must be between {low} and {high} or equal to {setting.range.split('|')[0]}"


def _check_text(setting: Setting, text: str) -> str | None:
    return _check_choice(setting, [text]) or ("String must be non-empty" if _is_empty(setting, text) else None)


def _check_list(setting: Setting, text: str) -> str | None:
    parts = parse_list(text)
    if not parts and (_is_empty(setting, text) or setting.range != "*"):
        return "Configuration must not be empty"
    return _check_choice(setting, parts)


def _check_choice(setting: Setting, values: list[str]) -> str | None:
    if setting.range in ("*", "nonempty"):
        return None
    ignoring_case = setting.range.startswith("nocase:")
    choices = setting.range.removeprefix("nocase:").split("|")
    if all((value.upper() if ignoring_case else value) in choices for value in values):
        return None
    return f"String must be one of: {', '.join(choices)}"


def _is_empty(setting: Setting, text: str) -> bool:
    return setting.range == "nonempty" and not text


def _accept(setting: Setting, text: str) -> str | None:
    return None


_CHECKS = {
    Type.BOOLEAN: _check_boolean,
    Type.STRING: _check_text,
    Type.INT: _check_integer,
    Type.SHORT: _check_integer,
    Type.LONG: _check_integer,
    Type.DOUBLE: _check_double,
    Type.LIST: _check_list,
    Type.CLASS: _check_text,
    Type.PASSWORD: _accept,
}


def read_table(table: str) -> dict[str, Setting]:
    """The settings of a table by name."""
    settings = {}
    for line in table.strip().splitlines():
        name, kind, default, allowed, flags = line.split()
        settings[name] = Setting(
            name,
            Type[kind.upper()],
            {"null": None, '""': ""}.get(default, default),
            allowed,
            "A" in flags,
            "D" in flags,
        )
    return settings


@cache
def broker_settings() -> dict[str, Setting]:
    """Every broker setting by name."""
    from refbroker.settings.broker_table import BROKER_TABLE

    return read_table(BROKER_TABLE)


@cache
def topic_settings() -> dict[str, Setting]:
    """Every topic setting by name."""
    from refbroker.settings.topic_table import TOPIC_TABLE

    return read_table(TOPIC_TABLE)


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name most like a mistyped one, None when there is none like it."""
    found = difflib.get_close_matches(name, list(names), n=1, cutoff=0.6)
    return found[0] if found else None
