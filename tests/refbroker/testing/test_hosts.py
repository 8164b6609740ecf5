"""The machine that brokers for tests run on."""

from __future__ import annotations

import asyncio
import threading

from refbroker.runtime.threads import in_thread
from refbroker.testing.hosts import ThreadHost

AT_ONCE = 40


def test_a_broker_may_have_forty_worker_threads() -> None:
    together, results = threading.Barrier(AT_ONCE), list[int]()

    async def main() -> None:
        results.extend(await asyncio.gather(*(in_thread(together.wait, 20) for _ in range(AT_ONCE))))

    ThreadHost().start(main).join()
    assert sorted(results) == list(range(AT_ONCE))
