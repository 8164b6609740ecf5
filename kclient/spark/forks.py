"""Resets state that must not be shared with forked children, such as caches of clients.

PySpark's daemon forks its workers, and programs fork too. The network thread of a client stays in the parent, which
also owns the connections. Locks are replaced, because a thread of the parent may have held one at the fork. Dropping
clients in the child does not affect the parent: a client closes nothing in another process, and emits no
ResourceWarning there.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from types import MethodType


def forget_in_children(forget: Callable[[], object]) -> None:
    """Call a function in every child that is forked from now on, before anything else runs there.

    Parameters:
        forget: replaces locks and drops the parent's state. A method is called as long as its object lives.
    """
    if not hasattr(os, "register_at_fork"):
        return
    if not isinstance(forget, MethodType):
        os.register_at_fork(after_in_child=forget)
        return
    method = weakref.WeakMethod(forget)

    def in_child() -> None:
        found = method()
        if found is not None:
            found()

    os.register_at_fork(after_in_child=in_child)
