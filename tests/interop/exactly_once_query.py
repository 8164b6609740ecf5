"""A program that runs the batches of a query (`tests.support.spark_stand_in`) and kills itself at a step of chance.

What Spark would keep in its checkpoint, how many batches are done, is a file.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from pathlib import Path

from tests.support.spark_stand_in import Chance, Query, batches_of

BATCHES = 8


class Deadly(Chance):
    """Kills the process at a step.

    Parameters:
        at: the number of the step.
        checkpoint: how many batches are done.
    """

    def __init__(self, at: int, query: Query, checkpoint: Path) -> None:
        super().__init__()
        self._killing = threading.Lock()
        self._last = at
        self._query = query
        self._checkpoint = checkpoint

    def step(self, name: str) -> None:
        # Several transactions are completed at once, and one of them must not die while another writes the file.
        with self._killing:
            super().step(name)
            self._checkpoint.write_text(str(self._query.done))
            if len(self.steps) > self._last:
                os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    servers, topic, tasks, folder, seed = sys.argv[1:]
    query = Query(servers, topic, topic, batches_of(BATCHES, int(tasks)))
    checkpoint = Path(folder, "done")
    query.done = int(checkpoint.read_text()) if checkpoint.exists() else 0
    # A batch has 30 steps, and 20 more for each further task; a run has ten of its own. Half of them end a batch.
    at = random.Random(seed).randrange(20, 60 + 40 * int(tasks))
    query.run(Deadly(at, query, checkpoint), run=f"run{seed}")
    query.end()


if __name__ == "__main__":
    main()
