"""The transactions that were begun, their reported outcomes, and the comparison with what a committed reader sees.

In this model, a transaction is a number of records and the range of the input from which they were made. A transaction
that was reported as committed is visible completely and once; one that was reported as aborted, or for which no commit
was requested, is not visible; any other is visible completely or not at all. The visible ones cover the input without
gaps up to the committed offset.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from kclient.types import ConsumerRecord
from tests.sim.committed_reader import CommittedReader
from tests.sim.transaction_broker import SimulatedBroker

PARTITIONS = (0, 1)


class Reported(enum.Enum):
    """What the application knows of a transaction."""

    OPEN = "nobody asked to commit it"
    UNKNOWN = "somebody asked to commit it"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass
class Entry:
    """One transaction.

    Attributes:
        begin, end: of the input that it covers.
        records: how many it has for each partition.
    """

    number: int
    name: str
    begin: int
    end: int
    records: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    reported: Reported = Reported.OPEN

    def value(self, partition: int) -> bytes:
        """The next record for a partition."""
        self.records[partition] += 1
        return b"%d:%d" % (self.number, self.records[partition])


class Seen(NamedTuple):
    """A record that was read."""

    offset: int
    number: int
    place: int


class Ledger:
    """All transactions of a run.

    Attributes:
        entries: by number.
        seen: what was read, by partition.
    """

    def __init__(self, broker: SimulatedBroker) -> None:
        self.entries: list[Entry] = []
        self.seen: dict[int, list[Seen]] = {number: [] for number in PARTITIONS}
        self._readers = {number: CommittedReader(broker, number) for number in PARTITIONS}
        self._broker = broker

    def begin(self, name: str, begin: int, end: int) -> Entry:
        """A transaction begins."""
        self.entries.append(Entry(len(self.entries), name, begin, end))
        return self.entries[-1]

    def report(self, entry: Entry, what: Reported) -> None:
        """The application gets the error, or a health report."""
        final = (Reported.COMMITTED, Reported.ABORTED)
        assert entry.reported not in final or entry.reported is what, f"{entry} is said to be {what.value} now"
        entry.reported = what

    # Reading

    def read(self) -> None:
        """Read on as far as records are committed, when the broker is there."""
        for partition, reader in self._readers.items():
            self.seen[partition] += map(_seen, reader.read())

    # Checks

    def check(self, committed: dict[str, int]) -> None:
        """See that all fits, at the end of a run.

        Parameters:
            committed: the offset of each group; its name is that of the transactional id.
        """
        self.read()
        for partition, seen in self.seen.items():
            reader = CommittedReader(self._broker, partition)
            again = list(map(_seen, reader.read()))
            assert again == seen, f"partition {partition} was read as {seen}, and then as {again}"
            assert reader.position == reader.stable == self._readers[partition].stable
        visible: dict[int, dict[int, int]] = defaultdict(dict)
        for partition in PARTITIONS:
            self._check_order(partition, visible)
        for entry in self.entries:
            found = visible.get(entry.number)
            if entry.reported in (Reported.OPEN, Reported.ABORTED):
                assert not found, f"{entry} is visible: {found}"
            elif entry.reported is Reported.COMMITTED:
                assert dict(entry.records) == (found or {}), f"of {entry} there is {found}"
            else:
                assert found is None or dict(entry.records) == found, f"of {entry} there is {found}"
        for name, offset in committed.items():
            self._check_offsets(name, offset, visible)

    def _check_order(self, partition: int, visible: dict[int, dict[int, int]]) -> None:
        """Each transaction's records one after the other, and the transactions of one producer too."""
        last: dict[str, int] = {}
        for seen in self.seen[partition]:
            entry = self.entries[seen.number]
            before = visible[seen.number].get(partition, 0)
            assert seen.place == before + 1, f"record {seen.place} of {entry} comes after {before} in {partition}"
            visible[seen.number][partition] = seen.place
            assert entry.begin >= last.get(entry.name, 0), f"{entry} comes after {last} in partition {partition}"
            last[entry.name] = entry.begin

    def _check_offsets(self, name: str, offset: int, visible: dict[int, dict[int, int]]) -> None:
        """What is visible covers the input up to the committed offset, each of it once."""
        counts = [
            (entry.begin, entry.end)
            for entry in self.entries
            if entry.name == name and (entry.number in visible or entry.reported is Reported.COMMITTED)
        ]
        at = 0
        for begin, end in sorted(counts):
            assert begin == at, f"{name}: input {at} to {begin} is {'missing' if begin > at else 'doubled'}: {counts}"
            at = end
        assert at == offset, f"{name}: the input is covered up to {at}, and {offset} is committed: {counts}"


def _seen(record: ConsumerRecord) -> Seen:
    number, place = map(int, (record.value or b"").split(b":"))
    return Seen(record.offset, number, place)
