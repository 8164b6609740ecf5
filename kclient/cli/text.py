"""What users write on the command line for what a keyboard cannot, for points in time, states and partitions."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum
from typing import TypeVar

import typer

from kclient import _times
from kclient.consumer.assignment.reset import parse_duration
from kclient.errors import ConfigError
from kclient.types import TopicPartition

N = TypeVar("N", bound=Enum)


def unescaped(text: str, option: str) -> str:
    r"""Text with Python's escapes, as `\t`, `\n` or `\x00`; all else stays as it is.

    Raises:
        typer.BadParameter: it holds an escape that does not exist; `option` is who it is for.
    """
    try:
        # What is beyond Latin-1 becomes an escape as well, and so survives a codec that reads Latin-1.
        return text.encode("latin-1", "backslashreplace").decode("unicode_escape")
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{text!r} holds an escape that is none: {error.reason}", param_hint=option) from None


def milliseconds(text: str, option: str) -> int:
    """A point in time, in milliseconds since the epoch; without a zone it is local.

    Raises:
        typer.BadParameter: it is neither milliseconds nor ISO 8601; `option` is who it is for.
    """
    if text.isdecimal():
        return int(text)
    try:
        return _times.milliseconds(datetime.fromisoformat(text))
    except ValueError:
        message = f"{text!r} is neither milliseconds nor a time in ISO 8601"
        raise typer.BadParameter(message, param_hint=option) from None


def seconds(text: str, option: str) -> float:
    """A length of time in ISO 8601, as `PT1M`, in seconds.

    Raises:
        typer.BadParameter: it is none; `option` is who it is for.
    """
    try:
        return parse_duration(text) / 1000
    except ConfigError:
        message = f'{text!r} is no duration in ISO 8601, as "PT30S", "PT1H30M" or "P7D"'
        raise typer.BadParameter(message, param_hint=option) from None


def moment(milliseconds: int) -> str:
    """A point in time as `milliseconds` reads it."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


def named(kind: type[N], text: str, option: str) -> N:
    """A state or a type by Kafka's name, as `PreparingRebalance`, `preparing-rebalance` or `PREPARING_REBALANCE`.

    Raises:
        typer.BadParameter: there is none of that name; `option` is who it is for.
    """
    wanted = text.replace("_", "").replace("-", "").lower()
    for member in kind:
        if member.value.lower() == wanted:
            return member
    names = ", ".join(member.value for member in kind if member.name != "UNKNOWN")
    raise typer.BadParameter(f"there is no {text!r}, only {names}", param_hint=option)


def partitions(text: str) -> list[TopicPartition | str]:
    """A topic, or TOPIC:0,3 as some of its partitions.

    Raises:
        typer.BadParameter: it is neither.
    """
    topic, separator, numbers = text.partition(":")
    if not separator:
        return [topic]
    parts = numbers.split(",")
    if not all(part.isdecimal() for part in parts):
        raise typer.BadParameter(f"{text!r} is not TOPIC or TOPIC:PARTITION,...", param_hint="--topic")
    return [TopicPartition(topic, int(part)) for part in parts]
