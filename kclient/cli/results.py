"""What a call on many things came to: what succeeded is shown even if the rest fails, which is raised afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kclient.errors import AdminError

K = TypeVar("K")
R = TypeVar("R")


def succeeded(call: Callable[[], dict[K, R]]) -> tuple[dict[K, R], AdminError | None]:
    """The results, and what to raise when these are shown."""
    try:
        return call(), None
    except AdminError as error:
        return error.results, error


def raise_if(error: AdminError | None) -> None:
    """Raise what failed, if anything did."""
    if error is not None:
        raise error
