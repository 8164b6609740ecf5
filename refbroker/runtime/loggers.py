"""The levels of the broker's loggers, as Kafka's admin tools show and change them (KIP-412).

Kafka's `root` maps to the logger `refbroker`, because other loggers of the process do not belong to the broker. Python
has no TRACE and names FATAL differently; a level that Kafka does not know is shown as the next one it knows. As in
Kafka, levels are lost on restart.
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
    """Return every logger of the broker with its effective level."""
    names = [
        name
        for name, found in logging.root.manager.loggerDict.items()
        if name.startswith(f"{_PACKAGE}.") and isinstance(found, logging.Logger)
    ]
    return {name: _shown(_logger(name).getEffectiveLevel()) for name in [ROOT, *sorted(names)]}


def set_level(name: str, level: str) -> None:
    """Set the level of a logger.

    Parameters:
        level: a key of `LEVELS`.
    """
    _logger(name).setLevel(LEVELS[level])


def unset_level(name: str) -> None:
    """Reset a logger to the level of its parent."""
    _logger(name).setLevel(logging.NOTSET)


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(_PACKAGE if name == ROOT else name)


def _shown(level: int) -> str:
    return next((name for name, number in LEVELS.items() if level <= number), "FATAL")
