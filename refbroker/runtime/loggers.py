"""The levels of the broker's loggers, as Kafka's admin tools see and change them (KIP-412).

Kafka's `root` is the logger `refbroker` here: the rest of the process is not the broker's. Python has no TRACE and
calls FATAL otherwise; a level that Kafka does not have is shown as the next one that it has. Levels are not kept over
a restart, in Kafka neither.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

ROOT = "root"
_PACKAGE = "refbroker"

LEVELS: Mapping[str, int] = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


def levels() -> dict[str, str]:
    """Every logger of the broker with the level that applies to it."""
    names = [
        name
        for name, found in logging.root.manager.loggerDict.items()
        if name.startswith(f"{_PACKAGE}.") and isinstance(found, logging.Logger)
    ]
    return {name: _shown(_logger(name).getEffectiveLevel()) for name in [ROOT, *sorted(names)]}


def set_level(name: str, level: str) -> None:
    """Give a logger a level.

    Parameters:
        level: a key of `LEVELS`.
    """
    _logger(name).setLevel(LEVELS[level])


def unset_level(name: str) -> None:
    """Let a logger have the level of the one above it again."""
    _logger(name).setLevel(logging.NOTSET)


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(_PACKAGE if name == ROOT else name)


def _shown(level: int) -> str:
    return next((name for name, number in LEVELS.items() if level <= number), "FATAL")
