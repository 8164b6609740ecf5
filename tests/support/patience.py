"""How long tests wait for others before they fail: the only such table.

Each value bounds a wait for a condition; none is a duration that a test expects or measures. KCLIENT_PATIENCE
multiplies them all, for a machine that is slow or busy.
"""

from __future__ import annotations

import os

FACTOR = float(os.environ.get("KCLIENT_PATIENCE", "1"))

ANSWER = 30.0 * FACTOR
"""A client, a broker or a thread in this process responds."""
CHANGE = 60.0 * FACTOR
"""A cluster or a group settles after a change: a leader, a coordinator, an assignment, a broker that comes back."""
PROCESS = 120.0 * FACTOR
"""Another process starts, or does the whole of its work: a JVM, an application of Spark, a killed program."""
DOWNLOAD = 600.0 * FACTOR
"""Maven fetches Apache Kafka."""
GUARD = 300.0 * FACTOR
"""A single test, with the Apache Kafka that it is the first to start. It ends what hangs, and asserts nothing."""
NEVER_MS = int(10_000 * GUARD)
"""A timeout that cannot end a test's wait: a condition does, or the guard ends the test."""
