"""The data source with a plan: at one call of one process of Spark's it fails, dies, stops or waits, once.

The plan is a file, since Spark's processes know nothing of the test. The first process at the planned call takes
the file away. Calls are named `before commit_transaction`, `after complete_transaction` and so on; `commit` is the
writer's.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import msgspec
from pyspark.sql.datasource import DataSourceStreamArrowWriter

from kclient import Admin, Producer
from kclient.errors import KafkaError
from kclient.spark.source import KafkaSource
from kclient.spark.writer import StreamWriter

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter
    from pyspark.sql.types import StructType

PLAN = "plan"
WATCHED = ((Producer, "prepare_transaction"), (Producer, "commit_transaction"), (Admin, "complete_transaction"))


class PlannedError(KafkaError, name="PLANNED"):
    """It was to fail here."""


class Plan(msgspec.Struct):
    """What is to happen.

    Attributes:
        step: at which call, before or after.
        do: `fail` raises, `exit` ends the process, `stop` leaves it there to be killed, `wait` continues after a while.
        skip: so many such calls of the process continue before.
        seconds: how long `wait` waits.
    """

    step: str
    do: str
    skip: int = 0
    seconds: float = 0

    def write(self, path: Path) -> None:
        path.write_bytes(msgspec.json.encode(self))


def reached(path: Path) -> Path:
    """Exists once it happened."""
    return path.with_suffix(".reached")


class Watch:
    """Looks at the plan at each step of a process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: dict[str, int] = {}
        self._decided = False
        self._lock = threading.Lock()

    def step(self, name: str) -> None:
        self._decided |= name == "after commit_transaction"
        # A run's first commit completes the batch before it again: that is not the completion a plan means.
        if name.endswith(" complete_transaction") and not self._decided:
            return
        try:
            plan = msgspec.json.decode(self._path.read_bytes(), type=Plan)
        except FileNotFoundError:
            return
        if plan.step != name:
            return
        # Transactions are completed by several threads at the same time.
        with self._lock:
            self._seen[name] = seen = self._seen.get(name, 0) + 1
        if seen <= plan.skip:
            return
        if plan.do == "stop":
            # It stays planned: every process that gets here stops.
            reached(self._path).touch()
            while True:
                time.sleep(60)
        try:
            os.rename(self._path, reached(self._path))
        except FileNotFoundError:
            return
        if plan.do == "exit":
            os._exit(1)
        if plan.do == "wait":
            time.sleep(plan.seconds)
            return
        raise PlannedError(f"planned: {name}")

    def around(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **options: Any) -> Any:
            self.step(f"before {name}")
            result = call(*arguments, **options)
            self.step(f"after {name}")
            return result

        return watched


@contextmanager
def planned(path: Path) -> Iterator[Watch]:
    """Let the clients of this process go by the plan."""
    watch = Watch(path)
    with ExitStack() as stack:
        for kind, name in WATCHED:
            stack.enter_context(patch.object(kind, name, watch.around(name, getattr(kind, name))))
        yield watch


class CrashingSource(KafkaSource):
    """The data source; the option `plan` is the plan's path."""

    @classmethod
    def name(cls) -> str:
        return "kclient_crashing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        plan = Path(self.options[PLAN])
        source = KafkaSource({name: value for name, value in self.options.items() if name.lower() != PLAN})
        return CrashingWriter(plan, source.streamWriter(schema, overwrite))


class CrashingWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """The writer, with each call of its clients watched."""

    def __init__(self, plan: Path, writer: StreamWriter) -> None:
        self._plan = plan
        self._writer = writer

    def write(self, iterator: Iterator[Any]) -> Any:
        with planned(self._plan):
            return self._writer.write(iterator)

    def commit(self, messages: list[Any], batchId: int) -> None:
        with planned(self._plan) as watch:
            watch.around("commit", self._writer.commit)(messages, batchId)

    def abort(self, messages: list[Any], batchId: int) -> None:
        with planned(self._plan):
            self._writer.abort(messages, batchId)
