"""The errors that all clients share for mistakes in creating or passing on a client.

Elsewhere: options and their values (`config`), and what each method checks of its own arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, NoReturn

_CO_COROUTINE = inspect.CO_COROUTINE


def refuse_positional(client: type, arguments: tuple[object, ...]) -> None:
    """Raise a TypeError that says how a client takes its options, if it was given positional arguments."""
    if arguments:
        raise TypeError(
            f"{client.__name__} takes its options by keyword, not a {type(arguments[0]).__name__}. "
            f"Use {client.__name__}.from_properties() for a mapping of Kafka's dotted names or a .properties file."
        )


def refuse_properties(client: type, arguments: tuple[object, ...]) -> None:
    """Raise the error of `refuse_positional`, for a client whose positional arguments are topics."""
    refuse_positional(client, tuple(one for one in arguments if isinstance(one, Mapping | PurePath)))


def refuse_pickling(client: object) -> NoReturn:
    """Raise the TypeError of a client that is pickled or copied."""
    raise TypeError(
        f"{client!r} cannot be pickled or copied: it holds a thread and connections. "
        f"Make a {type(client).__name__} in each process that needs one."
    )


def is_plain_callback(callback: Any) -> bool:
    """Return whether a callback can be called and is not obviously a coroutine function.

    This check is cheap; its twin in `producer/_hot.pyx` does the same. `is_coroutine_function` finds all cases.
    """
    code = getattr(callback, "__code__", None)  # a method's is that of its function
    return callable(callback) if code is None else not code.co_flags & _CO_COROUTINE


def is_coroutine_function(callback: Any) -> bool:
    """Return whether this is an `async def`, a partial of one, or an object whose `__call__` is one."""
    call = getattr(type(callback), "__call__", None)  # noqa: B004 - what it is, not whether it is there
    return inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(call)


def check_callback(name: str, callback: Any) -> None:
    """Check that a callback can be called and is not a coroutine function.

    Parameters:
        name: the parameter that it was given as, for the error.

    Raises:
        TypeError: it cannot be called, or is a coroutine function, which nothing would await.
    """
    if not callable(callback):
        raise TypeError(f"{name} must be a function, not {callback!r}")
    if is_coroutine_function(callback):
        raise TypeError(
            f"{name} must be a plain function, not the coroutine function {callback!r}: nothing would await it"
        )


def should_be_instance(option: str, given: object) -> str:
    """Return the message for an option that was given a class in place of an object of it."""
    name = getattr(given, "__name__", repr(given))
    return f"{option} must be an object, not the class {name}. Did you mean {name}()?"
