"""Texts on the command line: escapes, times, states and partitions."""

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
    r"""Return a text with Python's escapes, such as `\t`, `\n` or `\x00`, replaced.

    Raises:
        typer.BadParameter: it has an invalid escape; `option` names the option in the message.
    """
    try:
        # Characters beyond Latin-1 become escapes too, so that they survive a codec that reads Latin-1.
        return text.encode("latin-1", "backslashreplace").decode("unicode_escape")
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{text!r} has an invalid escape: {error.reason}", param_hint=option) from None


def milliseconds(text: str, option: str) -> int:
    """Return milliseconds since the epoch; a time without a zone is local.

    Raises:
        typer.BadParameter: it is neither milliseconds nor ISO 8601; `option` names the option in the message.
    """
    if text.isdecimal():
        return int(text)
    try:
        return _times.milliseconds(datetime.fromisoformat(text))
    except ValueError:
        message = f"{text!r} is neither milliseconds nor a time in ISO 8601"
        raise typer.BadParameter(message, param_hint=option) from None


def seconds(text: str, option: str) -> float:
    """Return the seconds of an ISO 8601 duration such as `PT1M`.

    Raises:
        typer.BadParameter: it is not a duration; `option` names the option in the message.
    """
    try:
        return parse_duration(text) / 1000
    except ConfigError:
        message = f'{text!r} is not a duration in ISO 8601, such as "PT30S", "PT1H30M" or "P7D"'
        raise typer.BadParameter(message, param_hint=option) from None


def moment(milliseconds: int) -> str:
    """Return a time in the format that `milliseconds` reads."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


def named(kind: type[N], text: str, option: str) -> N:
    """Return a state or type by Kafka's name, such as `PreparingRebalance`, `preparing-rebalance` or
    `PREPARING_REBALANCE`.

    Raises:
        typer.BadParameter: the name does not exist; `option` names the option in the message.
    """
    wanted = text.replace("_", "").replace("-", "").lower()
    for member in kind:
        if member.value.lower() == wanted:
            return member
    names = ", ".join(member.value for member in kind if member.name != "UNKNOWN")
    raise typer.BadParameter(f"there is no {text!r}, only {names}", param_hint=option)


def partitions(text: str) -> list[TopicPartition | str]:
    """Return a topic, or some of its partitions for TOPIC:0,3.

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
