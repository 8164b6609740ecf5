"""Names of topics, groups and ids on a broker that several tests share."""

from __future__ import annotations

import itertools
import random
import re

_numbers = itertools.count(1)


def readable(description: str) -> str:
    """Return the description as a name that Kafka accepts."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", description).strip("-.")[:80]


def unique(description: str) -> str:
    """Return a name that no test has used on any broker before; it begins with the description."""
    return f"{readable(description)}-{next(_numbers)}-{random.SystemRandom().randrange(16**8):08x}"
