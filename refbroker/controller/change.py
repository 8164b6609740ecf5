"""A decided change of the metadata: what to append to the log, and what to answer then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kclient.protocol import Message


@dataclass(slots=True)
class Change:
    """A change of the cluster's metadata.

    Attributes:
        records: the records to append to the metadata log, atomically.
        respond: returns the response when the change has taken effect.
    """

    records: Sequence[Message]
    respond: Callable[[], Message]
