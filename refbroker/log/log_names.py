"""The names of log directories, and their parsing.

    orders-0                                                  the log of a partition
    orders-0.3f2504e04f8941d39a0c0305e82c3301-delete          a deleted log, to be removed
    orders-0.3f2504e04f8941d39a0c0305e82c3301-future          a copy that will replace the current log
    orders-0.3f2504e04f8941d39a0c0305e82c3301-stray           a partition that is not assigned to this broker

The random id makes each name unique. The topic's name is truncated if the name would be too long for a directory,
except for a future log, whose topic must be parsed from the name.
"""

from __future__ import annotations

import enum
import re
import uuid
from typing import NamedTuple

LONGEST_NAME = 255
"""The most bytes in the name of a directory."""

_LOG_NAME = re.compile(
    r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)(?:\.[a-zA-Z0-9_]+-(?P<kind>delete|future|stray))?"
)


class LogKind(enum.Enum):
    """The kind of a log, with the suffix of its directory's name."""

    CURRENT = ""
    DELETE = "-delete"
    FUTURE = "-future"
    STRAY = "-stray"


class LogName(NamedTuple):
    """The parts of a log directory's name."""

    topic: str
    partition: int
    kind: LogKind


def parse_log_name(name: str) -> LogName | None:
    """Return the parts of a log directory's name, None if it is not the name of one."""
    match = _LOG_NAME.fullmatch(name)
    if match is None:
        return None
    kind = LogKind.CURRENT if match["kind"] is None else LogKind("-" + match["kind"])
    return LogName(match["topic"], int(match["partition"]), kind)


def log_name(topic: str, partition: int, kind: LogKind = LogKind.CURRENT) -> str:
    """Return a name for the directory of a log; unless the log is current, the name is unique."""
    if kind is LogKind.CURRENT:
        return f"{topic}-{partition}"
    end = f"-{partition}.{uuid.uuid4().hex}{kind.value}"
    return (topic if kind is LogKind.FUTURE else topic[: LONGEST_NAME - len(end)]) + end
