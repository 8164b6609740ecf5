"""Helpers that state the types of values where only the test knows them.

After `assert case.state is State.JOINING`, mypy assumes that the attribute keeps this value over calls that change it,
and reports the next assertion as one that cannot hold. `reread` makes mypy forget the value.
"""

from __future__ import annotations

from typing import Any, TypeVar

from kclient.net.manager import Request
from kclient.net.operation import Operation, Result
from kclient.protocol import Message

M = TypeVar("M", bound=Message)
T = TypeVar("T")


def built(request: Request, kind: type[M], version: int) -> M:
    """Build the message of a request, and check its kind."""
    message = request.build(version)
    assert isinstance(message, kind), request
    return message


def first_step(operation: Operation[Any]) -> Result:
    """Run an operation to its first step, and return the result that it waits for."""
    step = next(operation)
    assert isinstance(step, Result)
    return step


def must(value: T | None) -> T:
    """Return a value that is not None."""
    assert value is not None
    return value


def reread(value: object) -> object:
    """Return the value of an attribute that earlier assertions have narrowed."""
    return value
