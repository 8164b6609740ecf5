"""The choice between the compiled and the pure sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kclient._twins import load

if TYPE_CHECKING:
    from kclient.net.io import Poller

__all__ = ["Poller"]

if not TYPE_CHECKING:
    (Poller,) = load(__all__, compiled="kclient.net._io", pure=("kclient.net.io",))
