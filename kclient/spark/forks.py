"""What a process keeps from task to task is not for its forked children: each of them begins with nothing.

PySpark's daemon forks its workers, and programs fork by themselves. A client's network thread stays in the parent, and
its connections are the parent's. Locks begin anew too: a thread of the parent may have held one at that moment, and is
not there to release it. What the child drops does no harm to the parent: a client closes nothing in another process
than its own, and says no word there of not having been closed.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from types import MethodType


def forget_in_children(forget: Callable[[], object]) -> None:
    """Call this in every child that is forked from now on, before anything else runs there.

    Parameters:
        forget: makes locks anew, and drops what the parent has. A method is called as long as its object lives.
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
