"""What the copiers share, whichever client they call: topics, ids, sizes, and what they report.

Not implemented: any copying, which is in `copier` and `confluent_copier`.
"""

from __future__ import annotations

import os

SOURCE, TARGET, GROUP, TRANSACTIONAL_ID = "in", "out", "copiers", "copier"
LARGEST = 30
GIVEN_UP = 0.1
FENCED, BROKER_FAILED = 3, 4
MEMBER = {"session.timeout.ms": 3000, "heartbeat.interval.ms": 500, "auto.offset.reset": "earliest"}
TRANSACTION_TIMEOUT_MS = 30_000


class GivenUp(Exception):
    """A transaction that shall not be committed."""


def say(word: str) -> None:
    os.write(1, word.encode() + b"\n")


def fenced(error: Exception) -> None:
    say(f"fenced {error!r}")
    os._exit(FENCED)
