"""The broker for tests, and its controls: faults, the clock, the disk, a control port.

`ref_broker` runs a broker in a thread of this process. `faults` are rules for failing requests, `control` has the clock
and elections, in this process and over HTTP, and `simulated_disk` is a disk that fails, fills up or loses unflushed
data. The pytest fixtures are in `refbroker.pytest_plugin`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from refbroker.testing.control.client import RemoteControl
    from refbroker.testing.ref_broker import RefBroker
    from refbroker.testing.simulated_disk import SimulatedDisk

__all__ = ["RefBroker", "RemoteControl", "SimulatedDisk"]

_HOMES = {
    "RefBroker": "refbroker.testing.ref_broker",
    "RemoteControl": "refbroker.testing.control.client",
    "SimulatedDisk": "refbroker.testing.simulated_disk",
}


def __getattr__(name: str) -> Any:
    # Imported on first use, so that a test that only needs a broker starts sooner.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
