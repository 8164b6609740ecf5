"""The plans of refbroker's controller beside those of Kafka's own classes, in random cases and random histories.

KCLIENT_CONTROLLER_CASES is the number of changes of partitions and of placements, KCLIENT_CONTROLLER_HISTORIES that of
histories, of 200 steps each. Elsewhere: whole clusters with either controller.
"""

from __future__ import annotations

import dataclasses
import os
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from uuid import UUID

import pytest

from kclient.errors import KafkaError
from kclient.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsResponse
from kclient.protocol.messages.elect_leaders import ElectLeadersResponse
from kclient.protocol.messages.records.metadata_log import PartitionChangeRecord, PartitionRecord
from refbroker.controller.partition_changes import ChangeRules, Election, Target, plan_change
from refbroker.controller.placement import UsableBroker, place
from refbroker.metadata.image import PartitionState
from refbroker.metadata.versions import DIRECTORIES, ELIGIBLE_LEADERS, encode_record
from tests.interop.controller_script import LEVELS, History, Step, decoded, sorted_records
from tests.support.kafka.jars import compiled, run_tool
from tests.support.patience import GUARD, PROCESS

PROGRAM = Path(__file__).with_name("java") / "ControllerPlans.java"
MAIN = "org.apache.kafka.controller.ControllerPlans"
CASES = int(os.environ.get("KCLIENT_CONTROLLER_CASES", "5000"))
HISTORIES = int(os.environ.get("KCLIENT_CONTROLLER_HISTORIES", "100"))
STEPS = 200
AT_ONCE = 50
"""Histories in one run of the program."""
BROKERS = range(8)

pytestmark = [pytest.mark.usefixtures("needs_kafka"), pytest.mark.timeout(GUARD + CASES / 200 + HISTORIES)]


def kafkas_answers(lines: Sequence[str]) -> list[str]:
    """Return the answer of Kafka's controller to each line."""
    text = "".join(f"{line}\n" for line in lines)
    output = run_tool(MAIN, input=text, classes=compiled(PROGRAM), timeout=PROCESS + len(lines) / 100).stdout
    answers = output.partition("results:\n")[2].splitlines()
    assert len(answers) == len(lines), output[-3000:]
    return answers


# Changes of one partition


def some(rng: random.Random, nodes: Iterable[int], chance: float = 0.5) -> list[int]:
    """Return some of the brokers, in any order."""
    chosen = [node for node in nodes if rng.random() < chance]
    return rng.sample(chosen, len(chosen))


def random_partition(rng: random.Random, level: int) -> PartitionRecord:
    """Return a partition in a state in which it may be, and sometimes in one that cannot be."""
    replicas = rng.sample(BROKERS, rng.randint(1, 5))
    isr = some(rng, replicas, 0.6)
    record = PartitionRecord(
        partition_id=rng.randrange(5),
        topic_id=UUID(int=99),
        replicas=replicas,
        isr=isr,
        leader=rng.choice([-1, *isr]),
        leader_epoch=rng.randrange(100),
        partition_epoch=rng.randrange(100),
        leader_recovery_state=int(rng.random() < 0.2),
        removing_replicas=some(rng, replicas, 0.2) if rng.random() < 0.3 else [],
        adding_replicas=some(rng, replicas, 0.3) if rng.random() < 0.3 else [],
        directories=[UUID(int=(5 << 64) + node) for node in replicas] if level >= DIRECTORIES else [],
    )
    if level >= ELIGIBLE_LEADERS:
        record.eligible_leader_replicas = sorted(some(rng, [node for node in replicas if node not in isr]))
        record.last_known_elr = rng.choice(([], [], replicas[:1], replicas[:2], [rng.choice(BROKERS)]))
    return record


def random_change(rng: random.Random) -> tuple[str, str]:
    """Return a line for Kafka, and the record that is planned here."""
    level = rng.choice(LEVELS)
    record = random_partition(rng, level)
    state = PartitionState(
        record.partition_id,
        record.replicas,
        record.isr,
        record.leader,
        record.leader_epoch,
        record.partition_epoch,
        record.directories,
        record.removing_replicas,
        record.adding_replicas,
        record.leader_recovery_state,
        record.eligible_leader_replicas or [],
        record.last_known_elr or [],
    )
    has_elr = level >= ELIGIBLE_LEADERS and rng.random() < 0.8
    acceptable = some(rng, BROKERS, rng.choice((0.2, 0.6, 0.9)))
    target = Target.of(state, rng.choice(list(Election)))
    if rng.random() < 0.6:
        target.isr = some(rng, state.replicas)
    if rng.random() < 0.3:
        target.replicas = rng.sample(BROKERS, rng.randint(1, 5))
        target.removing = sorted(set(state.replicas).difference(target.replicas))
        target.adding = sorted(set(target.replicas).difference(state.replicas))
        target.replicas = [*target.replicas, *target.removing]
    if rng.random() < 0.2:
        target.recovery_state = 1 - target.recovery_state
    target.unclean_brokers = some(rng, BROKERS, 0.2)
    moved, directory = "", 0
    if level >= DIRECTORIES and rng.random() < 0.2:
        moved, directory = str(rng.choice(state.replicas)), rng.randrange(3)
        target.directories = {int(moved): UUID(int=(8 << 64) + directory)}
    min_isr = rng.randint(1, 4)
    fields = [
        "change",
        str(level),
        str(min_isr),
        str(int(has_elr)),
        target.election.name,
        encode_record(record, level).hex(),
        *(",".join(map(str, nodes)) for nodes in (target.isr, target.replicas, target.removing, target.adding)),
        str(target.recovery_state),
        ",".join(map(str, target.unclean_brokers)),
        ",".join(map(str, acceptable)),
        moved,
        str(directory),
    ]
    after = dataclasses.replace(target)
    after.complete()
    if not {*state.eligible_leader_replicas, *state.isr} <= set(after.replicas):
        # Kafka keeps replicas eligible that are removed.
        return random_change(rng)
    rules = ChangeRules(level, min_isr, has_elr, set(acceptable).__contains__, lambda node: UUID(int=(7 << 64) + node))
    change = plan_change(record.topic_id, state, target, rules)
    return "\t".join(fields), "-" if change is None else encode_record(change, level).hex()


def test_changes_of_partitions_are_those_of_kafka(rng: random.Random) -> None:
    cases = [random_change(rng) for _ in range(CASES)]
    changed = 0
    for (line, ours), theirs in zip(cases, kafkas_answers([line for line, _ in cases]), strict=True):
        changed += ours != "-"
        if ours != theirs:
            fields = line.split("\t")
            shown = [text if text in ("-",) or text.startswith("error") else decoded(text) for text in (ours, theirs)]
            pytest.fail(f"{decoded(fields[5])}\n{fields[:5] + fields[6:]}\nrefbroker {shown[0]}\nKafka {shown[1]}")
    print(f"{len(cases)} changes, {changed} with a record")  # noqa: T201
    assert changed > 0.3 * len(cases)


# Placement


class JavaRandom(random.Random):
    """The numbers of java.util.Random: a linear congruential generator of 48 bits."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._state = (seed ^ 0x5DEECE66D) & (2**48 - 1)

    def _next(self) -> int:
        """Return 31 bits."""
        self._state = (self._state * 0x5DEECE66D + 0xB) & (2**48 - 1)
        return self._state >> 17

    def _randbelow(self, n: int) -> int:
        """Return `nextInt(n)`; `randrange` and `shuffle` call it."""
        if n & -n == n:
            return (n * self._next()) >> 31
        while True:
            bits = self._next()
            value = bits % n
            if bits - value + (n - 1) < 2**31:
                return value


def random_placement(rng: random.Random) -> tuple[str, str]:
    """Return a line for Kafka, and the placement here."""
    # Kafka initializes racks in the order of a hash table, which for these names is that of the alphabet.
    racks = rng.sample((None, "A", "B", "C", "D", "E"), rng.randint(1, 6))
    brokers = [
        UsableBroker(node, rng.choice(racks), rng.random() < 0.25) for node in rng.sample(range(40), rng.randint(0, 12))
    ]
    seed, partitions, replicas = rng.randrange(2**40), rng.randint(1, 40), rng.randint(0, 6)
    listed = [f"{node}:{rack or ''}:{int(fenced)}" for node, rack, fenced in brokers]
    line = "\t".join(["place", str(seed), str(partitions), str(replicas), *listed])
    try:
        placed = place(brokers, partitions, replicas, JavaRandom(seed))
    except KafkaError as error:
        return line, f"error\t{error.message}"
    return line, "\t".join(",".join(map(str, nodes)) for nodes in placed)


def test_placements_are_those_of_kafka(rng: random.Random) -> None:
    cases = [random_placement(rng) for _ in range(CASES)]
    for (line, ours), theirs in zip(cases, kafkas_answers([line for line, _ in cases]), strict=True):
        assert ours == theirs, line


# Histories of clusters


def partition_code(line: str, response: str) -> str:
    """Return the error code of the only partition in a response."""
    data = bytes.fromhex(response)
    if line.startswith("elect"):
        return str(ElectLeadersResponse.decode(data, 2).replica_election_results[0].partition_result[0].error_code)
    return str(AlterPartitionReassignmentsResponse.decode(data, 1).responses[0].partitions[0].error_code)


def difference(step: Step, theirs: str) -> str | None:
    """Return how Kafka's answer differs, None if it does not."""
    kind, response, records = [*theirs.split("\t"), "", ""][:3]
    found = sorted_records(records.split(",") if records else [])
    answer = f"{kind}\t{response}" if response or step.answer.endswith("\t") or kind == "error" else kind
    if step.answer.startswith("code"):
        answer = f"code\t{partition_code(step.line, response)}" if kind == "ok" else answer
    if (answer, found) == (step.answer, step.records):
        return None
    return (
        f"refbroker: {step.answer}\n{[decoded(text) for text in step.records]}\n"
        f"Kafka: {answer}\n{[decoded(text) for text in found]}"
    )


def test_histories_of_clusters_are_those_of_kafka(rng: random.Random) -> None:
    counts: dict[str, list[int]] = {}
    for first in range(0, HISTORIES, AT_ONCE):
        seeds = [rng.randrange(2**32) for _ in range(first, min(first + AT_ONCE, HISTORIES))]
        histories = [History(random.Random(seed)).run(STEPS) for seed in seeds]
        answers = iter(kafkas_answers([step.line for steps in histories for step in steps]))
        for seed, steps in zip(seeds, histories, strict=True):
            for number, step in enumerate(steps):
                different = difference(step, next(answers))
                if different is not None:
                    before = "\n".join(one.line for one in steps[max(number - 3, 0) : number + 1])
                    pytest.fail(f"seed {seed}, step {number}\n{before}\n{different}")
                count = counts.setdefault(f"{step.line.split()[0]} {step.answer.split()[0]}", [0, 0])
                count[0] += 1
                count[1] += sum(isinstance(decoded(text), PartitionChangeRecord) for text in step.records)
    for name, (number, changes) in sorted(counts.items()):
        print(f"{name:20} {number:8} with {changes:8} changes of partitions")  # noqa: T201
