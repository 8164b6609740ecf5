"""A group, a topic and a coordinator in memory, with the calls of a consumer and a producer that the loop makes.

Results and offsets count together, when a transaction is committed, and never else. A test says what fails: for the
call of a name a list of what its next calls do, one each, the last ones going through.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable
from typing import Any

from kclient.config import ConsumerConfig
from kclient.consumer import RebalanceListener
from kclient.errors import (
    BufferExhaustedError,
    IllegalGenerationError,
    IllegalStateError,
    InvalidTxnStateError,
    KafkaError,
    OutOfOrderSequenceError,
    TransactionAbortableError,
    UnknownMemberIdError,
)
from kclient.net.operation import Operation, Pause, Step, TaskWaiter, ThreadWaiter
from kclient.net.operation import run as run_operation
from kclient.net.operation import run_async as run_operation_async
from kclient.net.waiting import LoopBridge
from kclient.producer import ProducerRecord
from kclient.transform.loop import Loop
from kclient.types import ConsumerGroupMetadata, ConsumerRecord, OffsetAndMetadata, TopicPartition

Fault = BaseException | Callable[[], None] | None
"""What a call raises, does first, or (None) not at all."""
IDENTITY = ConsumerGroupMetadata("g", 1, "m")
FIRST = TopicPartition("in", 0)


class After:
    """An error that is raised when the call has taken effect."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class Records:
    """What a poll returns."""

    def __init__(self, by_partition: dict[TopicPartition, list[ConsumerRecord]]) -> None:
        self._by_partition = by_partition

    def by_partition(self) -> dict[TopicPartition, list[ConsumerRecord]]:
        return self._by_partition


class TransformModel:
    """Two partitions of input, what of it counts, and what was called."""

    def __init__(self, records: int, *, faults: dict[str, Iterable[Fault | After]] | None = None) -> None:
        self.faults = {name: list(faults) for name, faults in (faults or {}).items()}
        self.calls: list[str] = []
        self.config = ConsumerConfig.from_options({"group_id": "g", "max_poll_records": 4, "enable_auto_commit": False})
        self.listener = RebalanceListener()
        self.owned = [TopicPartition("in", number) for number in range(2)]
        self.log = {tp: [record(tp, offset) for offset in range(records)] for tp in self.owned}
        self.position = dict.fromkeys(self.owned, 0)
        self.group: dict[TopicPartition, OffsetAndMetadata] = {}
        self.results: list[str] = []
        self.enough = 2 * records
        self.stop: Callable[[], None] = lambda: None
        self.state = "uninitialized"
        self.fenced: KafkaError | None = None
        self._sent: list[str] = []
        self._offsets: dict[TopicPartition, OffsetAndMetadata] = {}

    def _call(self, name: str) -> Callable[[], None]:
        """Note a call, and let it fail as the test wants; returns what is to be done after it has taken effect."""
        self.calls.append(name)
        faults = self.faults.get(name)
        fault = faults.pop(0) if faults else None
        if isinstance(fault, BaseException):
            raise fault
        if isinstance(fault, After):
            return lambda: _raise(fault.error)
        if fault is not None:
            fault()
        return lambda: None

    # -- a consumer

    def poll(self, timeout: float, max_records: int) -> Records:
        self._call("poll")
        assert self.calls.count("poll") < 200, self.calls[-20:]
        if len(self.results) == self.enough:
            self.stop()
        found: dict[TopicPartition, list[ConsumerRecord]] = {}
        for tp in self.owned:
            chunk = self.log[tp][self.position[tp] :][:max_records]
            if chunk:
                found[tp] = chunk
                self.position[tp] += len(chunk)
                max_records -= len(chunk)
        return Records(found)

    def assignment(self) -> set[TopicPartition]:
        return set(self.owned)

    def committed(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        self._call("committed")
        return {tp: self.group.get(tp) for tp in partitions}

    def seek(self, tp: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        self.position[tp] = offset if isinstance(offset, int) else offset.offset

    def group_metadata(self) -> ConsumerGroupMetadata:
        return IDENTITY

    # -- a producer

    def init_transactions(self) -> None:
        self._allow("init_transactions", "uninitialized")
        self._call("init_transactions")
        self.state = "ready"

    def begin_transaction(self) -> None:
        self._allow("begin_transaction", "ready")
        self._call("begin_transaction")
        self.state, self._sent, self._offsets = "open", [], {}

    def send(self, topic: str, value: Any, key: Any, headers: Any, partition: Any, timestamp: Any) -> None:
        self._allow("send", "open")
        self._call("send")
        self._sent.append(value)

    def send_offsets_to_transaction(
        self, offsets: dict[TopicPartition, OffsetAndMetadata], who: ConsumerGroupMetadata
    ) -> None:
        self._allow("send_offsets_to_transaction", "open")
        assert who is IDENTITY
        after = self._call("send_offsets_to_transaction")
        self._offsets |= offsets
        after()

    def commit_transaction(self, timeout: float | None) -> None:
        self._allow("commit_transaction", "open", "committed")
        after = self._call("commit_transaction")
        if self.state == "open":
            self.results += self._sent
            self.group |= self._offsets
        self.state = "committed"
        after()
        self.state = "ready"

    def abort_transaction(self, timeout: float | None) -> None:
        self._allow("abort_transaction", "open", "aborted")
        after = self._call("abort_transaction")
        self.state = "aborted"
        after()
        self.state = "ready"

    def _allow(self, name: str, *states: str) -> None:
        if self.fenced is not None:
            raise self.fenced
        if self.state not in states:
            raise IllegalStateError(f"{name} while {self.state}")

    # -- what a test looks at

    @property
    def counted(self) -> list[str]:
        """The results that there have to be, by what the group has committed."""
        return sorted(
            name(one) for tp, log in self.log.items() if tp in self.group for one in log[: self.group[tp].offset]
        )

    @property
    def everything(self) -> list[str]:
        return sorted(name(one) for log in self.log.values() for one in log)

    def give_up(self, partitions: Collection[TopicPartition], *, lost: bool = False) -> Any:
        """What a consumer does in a poll, when partitions go."""
        told = (self.listener.on_lost if lost else self.listener.on_revoked)(partitions)
        self.owned = [tp for tp in self.owned if tp not in partitions]
        return told

    def get(self, partitions: Collection[TopicPartition]) -> None:
        """What it does when they come: without a committed offset it starts at the end, as with "latest"."""
        for tp in partitions:
            self.owned.append(tp)
            self.position[tp] = self.group[tp].offset if tp in self.group else len(self.log[tp])


class AsyncFace:
    """The same calls as coroutines, where those of the async clients are."""

    def __init__(self, model: TransformModel) -> None:
        object.__setattr__(self, "_world", model)

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(self._world, attribute)
        if attribute in ("config", "listener", "assignment", "seek", "group_metadata"):
            return found

        async def call(*arguments: Any) -> Any:
            return found(*arguments)

        return call

    def __setattr__(self, attribute: str, value: Any) -> None:
        setattr(self._world, attribute, value)


def loop_of(model: TransformModel, function: Any, on_error: Any = None, **options: Any) -> Loop:
    """A loop that stops when there are `model.enough` results; its clock continues by a hundredth at each look."""
    given: dict[str, Any] = {"max_records": 3, "max_seconds": 1.0}
    given |= {"clock": itertools.count(0.0, 0.01).__next__, "awaits": False, "drive": drive} | options
    client: Any = AsyncFace(model) if given["awaits"] else model
    loop = Loop(client, client, function, on_error, given.pop("max_records"), given.pop("max_seconds"), **given)
    model.stop = loop.stop
    return loop


def run(loop: Loop, pauses: list[float | None] | None = None) -> None:
    """Run a blocking loop to its end; its pauses are added to the list."""
    run_operation(loop.run(), Waits(pauses))


async def run_async(loop: Loop) -> None:
    """Run an async one."""
    await drive_async(loop.run())


class Waits(ThreadWaiter):
    """Calls what an operation calls; a pause takes no time, and is noted."""

    def __init__(self, pauses: list[float | None] | None = None) -> None:
        super().__init__()
        self._pauses = [] if pauses is None else pauses

    async def wait(self, step: Step) -> Any:
        if not isinstance(step, Pause):
            return await super().wait(step)
        self._pauses.append(step.seconds)
        return None


class TaskWaits(TaskWaiter):
    """The same in a task."""

    async def wait(self, step: Step) -> Any:
        return None if isinstance(step, Pause) else await super().wait(step)


def drive(operation: Operation[Any]) -> Any:
    return run_operation(operation, Waits())


async def drive_async(operation: Operation[Any]) -> Any:
    return await run_operation_async(operation, TaskWaits(LoopBridge()))


ASYNC: dict[str, Any] = {"awaits": True, "drive": drive_async}


def record(tp: TopicPartition, offset: int) -> ConsumerRecord:
    return ConsumerRecord(tp.topic, tp.partition, offset, 0, 0, None, b"%d-%d" % (tp.partition, offset), (), 7)


def name(one: ConsumerRecord) -> str:
    return f"{one.partition}-{one.offset}"


def abortable(error: KafkaError) -> KafkaError:
    error.abortable, error.fatal, error.retriable = True, False, False
    return error


def fatal(error: KafkaError) -> KafkaError:
    error.abortable, error.fatal, error.retriable = False, True, False
    return error


def same(record: ConsumerRecord) -> ProducerRecord:
    """The function that changes nothing."""
    return ProducerRecord("out", name(record))


def whole(model: TransformModel) -> None:
    """See that nothing is open, and what counts is what the group has committed; who continues reads the rest."""
    assert model.state in ("ready", "uninitialized", "dead")
    assert sorted(model.results) == model.counted
    for tp in model.owned:
        assert model.position[tp] == (model.group[tp].offset if tp in model.group else 0), tp
    assert type(model.listener) is RebalanceListener


PASSING: list[KafkaError] = [
    abortable(TransactionAbortableError()),
    abortable(IllegalGenerationError()),
    abortable(UnknownMemberIdError()),
    abortable(OutOfOrderSequenceError()),
    abortable(InvalidTxnStateError()),
    BufferExhaustedError(),
]
"""Errors after which the loop reads the same records again."""


def _raise(error: BaseException) -> None:
    raise error
