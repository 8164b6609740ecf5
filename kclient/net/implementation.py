"""Which twin of the sockets runs: the compiled one, if it is there and `kclient.records` uses its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kclient.records import IMPLEMENTATION

if TYPE_CHECKING:
    from kclient.net.io import Poller
else:
    try:
        if IMPLEMENTATION != "compiled":
            raise ImportError("the pure twins are in use")
        from kclient.net._io import Poller
    except ImportError:
        from kclient.net.io import Poller

__all__ = ["Poller"]
