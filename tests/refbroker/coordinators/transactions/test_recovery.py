"""A coordinator that is killed before or after any of its writes, and what it does at its next start.

Each append to a log that a transaction makes is a moment to be killed at: just before, when nothing of it is there, and
just after, when nobody has learned of it. The producer sends what was not answered again, as clients do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kclient.errors import ConcurrentTransactionsError
from kclient.protocol.messages.offset_fetch import OffsetFetchRequest
from kclient.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from refbroker.coordinators.transactions.states import TransactionState
from refbroker.log import PartitionLog
from refbroker.testing.control.elections import elect
from tests.support.transaction_harness import DATA, ID, Identity, TransactionHarness

CONCURRENT = ConcurrentTransactionsError.code
OFFSETS = "__consumer_offsets"


class KilledError(BaseException):
    """The process has been killed."""


class Killer:
    """Kills at an append.

    Parameters:
        at: the number of the append.
        after: whether it is still written.
    """

    def __init__(self, at: int, after: bool) -> None:
        self.at = at
        self.after = after
        self.appends: list[str] = []

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        append = PartitionLog.append

        def killing(log: PartitionLog, *arguments: Any, **named: Any) -> Any:
            if log.topic == "__cluster_metadata":
                return append(log, *arguments, **named)
            self.appends.append(f"{log.topic}-{log.partition}")
            if len(self.appends) != self.at:
                return append(log, *arguments, **named)
            if self.after:
                append(log, *arguments, **named)
            raise KilledError

        monkeypatch.setattr(PartitionLog, "append", killing)

    @property
    def struck(self) -> bool:
        return len(self.appends) >= self.at


async def until_answered(broker: TransactionHarness, request: Callable[[], Any]) -> Any:
    """The answer to a request, which is sent again after a kill, and as long as a transaction is being ended."""
    for _ in range(5):
        try:
            answer = request()
        except KilledError:
            await broker.restarted(clean=False)
            continue
        code = answer[0] if isinstance(answer, tuple | list) else answer
        if code != CONCURRENT:
            return answer
        await broker.pass_time(100)
    raise AssertionError("no answer")


def commit_offset(broker: TransactionHarness, who: Identity, offset: int) -> int:
    """Commit an offset of the group `g` in the transaction; its error."""
    partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = TxnOffsetCommitRequest(
        transactional_id=ID,
        group_id="g",
        producer_id=who[0],
        producer_epoch=who[1],
        topics=[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=DATA, partitions=[partition])],
    )
    answer = broker.send(request, 5 if broker.version >= 2 else 3)
    code: int = answer.topics[0].partitions[0].error_code
    return code


def committed_offset(broker: TransactionHarness) -> int:
    topic = OffsetFetchRequest.OffsetFetchRequestTopics(name=DATA, partition_indexes=[0])
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=[topic])
    answer = broker.send(OffsetFetchRequest(groups=[group], require_stable=True), 8)
    [partition] = answer.groups[0].topics[0].partitions
    assert partition.error_code == 0
    offset: int = partition.committed_offset
    return offset


async def transact(broker: TransactionHarness, *, commit: bool) -> Identity:
    """One transaction: records in two partitions, an offset of a group, and its end; what the producer has then."""
    who: Identity
    after: Identity
    error, who = await until_answered(broker, broker.init)
    assert error == 0
    for partition in (0, 1):
        if broker.version < 2:
            assert await until_answered(broker, partial(broker.add, who, [(DATA, partition)])) == [0]
        assert await until_answered(broker, partial(broker.write, who, b"value", partition=partition)) == 0
    if broker.version < 2:
        assert await until_answered(broker, lambda: broker.add_offsets(who)) == 0
    assert await until_answered(broker, lambda: commit_offset(broker, who, 41)) == 0
    error, after = await until_answered(broker, lambda: broker.end(who, commit=commit))
    assert error == 0
    return after if broker.version >= 2 else who


def check(broker: TransactionHarness, *, commit: bool) -> None:
    """The transaction has ended in the same way everywhere."""
    state = broker.state()
    expected = TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
    assert (state.state, state.partitions) == (expected, frozenset())
    for topic, partition in ((DATA, 0), (DATA, 1), (OFFSETS, 0)):
        outcomes = {outcome for outcome, _ in broker.markers(partition, topic)}
        assert outcomes == {commit}, f"{topic}-{partition}"
        log = broker.log(topic, partition)
        assert log.last_stable_offset == log.log_end_offset
    assert committed_offset(broker) == (41 if commit else -1)


APPENDS = 12
"""The transactional id; two partitions, each with its record; the group, and its offset; the outcome, three markers,
and that all is complete."""


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
async def test_an_undisturbed_transaction_makes_so_many_appends(
    broker: TransactionHarness, monkeypatch: pytest.MonkeyPatch, commit: bool
) -> None:
    killer = Killer(1000, after=False)
    killer.install(monkeypatch)
    await transact(broker, commit=commit)
    check(broker, commit=commit)
    assert len(killer.appends) == APPENDS, killer.appends


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("after", [False, True], ids=["before it is written", "after it was written"])
@pytest.mark.parametrize("version", [pytest.param(0, marks=pytest.mark.slow), 2], ids="version {}".format)
@pytest.mark.parametrize("at", range(1, APPENDS + 1), ids="append {}".format)
async def test_a_transaction_survives_a_kill_at_any_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, at: int, after: bool, commit: bool
) -> None:
    broker = TransactionHarness(tmp_path / "data", version=version)
    killer = Killer(at, after)
    killer.install(monkeypatch)
    who = await transact(broker, commit=commit)
    assert killer.struck
    await broker.pass_time(100)
    check(broker, commit=commit)
    await until_answered(broker, lambda: broker.end(who, commit=False) if version >= 2 else broker.add(who))
    broker.close()


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("at", range(1, 6), ids="append {}".format)
@pytest.mark.parametrize("after", [False, True], ids=["before it is written", "after it was written"])
async def test_a_decided_transaction_ends_without_its_producer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, after: bool, commit: bool
) -> None:
    broker = TransactionHarness(tmp_path / "data")
    who = broker.identity()
    broker.begin(who)
    for partition in (0, 1):
        assert broker.write(who, b"value", partition=partition) == 0
    assert commit_offset(broker, who, 41) == 0
    killer = Killer(at, after)
    killer.install(monkeypatch)
    with pytest.raises(KilledError):
        broker.end(who, commit=commit)
    await broker.restarted(clean=False)
    await broker.pass_time(100)
    if at == 1 and not after:
        assert broker.state().state is TransactionState.ONGOING, "nothing was decided"
        await broker.pass_time(60_001)
        broker.broker.transactions.abort_timed_out()
        check(broker, commit=False)
    else:
        check(broker, commit=commit)
    broker.close()


async def test_everything_is_there_again_after_a_restart(broker: TransactionHarness) -> None:
    first = broker.identity("a")
    broker.begin(first, name="a")
    second = broker.identity("b")
    broker.begin(second, name="b")
    broker.end(second, commit=True, name="b")
    broker.identity("c")
    before = dict(broker.shard.transactions)
    await broker.restarted(clean=False)
    found = broker.shard.transactions
    assert {name: one.state for name, one in found.items()} == {name: one.state for name, one in before.items()}
    assert {name: one.partitions for name, one in found.items()} == {
        name: one.partitions for name, one in before.items()
    }
    assert broker.end(first, commit=True, name="a")[0] == 0


async def test_markers_that_waited_continue_after_a_restart(broker: TransactionHarness) -> None:
    who = broker.identity()
    broker.begin(who)
    broker.hold_markers()
    broker.end(who, commit=True)
    await broker.restarted(clean=False)
    assert broker.state().state.title == "PrepareCommit"
    assert len(broker.markers(1)) == 2, "nobody remembers that it was there"
    broker.release_markers()
    await broker.pass_time(100)
    assert broker.state().state.title == "CompleteCommit"
    assert {outcome for outcome, _ in broker.markers(0) + broker.markers(1)} == {True}


async def test_a_new_leader_epoch_starts_again_from_the_log(broker2: TransactionHarness) -> None:
    who = broker2.identity()
    broker2.begin(who)
    elect(broker2.broker, "__transaction_state", 0)
    await broker2.loaded()
    assert broker2.end(who, commit=True)[0] == 0
    [stored] = [value for _, value in broker2.records()[-1:]]
    assert stored is not None
    assert stored.transaction_status == TransactionState.COMPLETE_COMMIT
