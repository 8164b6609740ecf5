"""What type checkers need of tests: the types of values that are only known to the test.

mypy keeps what an assertion has shown of an attribute (`assert case.state is State.JOINING`) over the calls that change
it, and takes the next assertion for one that cannot hold. `reread` forgets what was shown.
"""

from __future__ import annotations

from typing import Any, TypeVar

from kclient.net.manager import Request
from kclient.net.operation import Operation, Result
from kclient.protocol import Message

M = TypeVar("M", bound=Message)
T = TypeVar("T")


def built(request: Request, kind: type[M], version: int) -> M:
    """Build the message of a request, which is of this kind."""
    message = request.build(version)
    assert isinstance(message, kind), request
    return message


def result_of(operation: Operation[Any]) -> Result:
    """Run an operation up to its first step, which waits for a result."""
    step = next(operation)
    assert isinstance(step, Result)
    return step


def must(value: T | None) -> T:
    """Return a value that has to be there."""
    assert value is not None
    return value


def reread(value: object) -> object:
    """Return the value of an attribute that earlier assertions have narrowed."""
    return value
