"""Results of calls with several keys: successful ones are shown even if others fail, then the error is raised."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kclient.errors import AdminError

K = TypeVar("K")
R = TypeVar("R")


def succeeded(call: Callable[[], dict[K, R]]) -> tuple[dict[K, R], AdminError | None]:
    """Return the results, and the error to raise after showing them."""
    try:
        return call(), None
    except AdminError as error:
        return error.results, error


def raise_if(error: AdminError | None) -> None:
    """Raise the error, if there is one."""
    if error is not None:
        raise error
