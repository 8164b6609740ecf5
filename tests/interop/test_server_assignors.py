"""The assignors `uniform` and `range` beside Kafka's own: random groups are assigned alike, partition by partition.

Kafka goes through members, and where all have the same subscription through topics, in the order of its hash tables;
so the members are given to it in the order of their ids, and its order of topics to ours. The unit tests read a
sample of what Kafka says from tests/data/golden.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.support.assignor_cases import assigned_here
from tests.support.golden_data import golden_rows
from tests.support.kafka.jars import run_tool

PROGRAM = Path(__file__).with_name("java") / "ServerAssignors.java"
CASES = 600


pytestmark = pytest.mark.usefixtures("needs_kafka")


def assigned_by_kafka(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cases with what Kafka's assignors make of them."""
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    output = run_tool(str(PROGRAM), input=lines).stdout
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def random_case(rng: random.Random) -> dict[str, Any]:
    """A group: new members and old ones, whose earlier partitions still exist, or partly, or not at all."""
    topics = sorted(str(UUID(int=rng.getrandbits(128))) for _ in range(rng.randint(1, 6)))
    rng.shuffle(topics)
    counts = {topic: rng.randint(1, 12) for topic in topics}
    ids = sorted(f"member-{rng.getrandbits(16):04x}" for _ in range(rng.randint(1, 9)))
    same = rng.random() < 0.5
    wanted = {each: topics if same else rng.sample(topics, rng.randint(1, len(topics))) for each in ids}
    assigned: dict[str, dict[str, list[int]]] = {each: {} for each in ids}
    former = rng.sample(ids, rng.randint(0, len(ids)))
    gone = str(UUID(int=rng.getrandbits(128)))
    for topic, count in [*counts.items(), (gone, 3)]:
        for partition in range(count):
            if former and rng.random() < 0.8:
                # The first ones have more than the others, as when members have come since.
                owner = former[min(rng.randrange(len(former)), rng.randrange(len(former)))]
                assigned[owner].setdefault(topic, []).append(partition)
    members = [
        {
            "id": each,
            "instance_id": f"instance-{rng.randint(0, 1 << 16)}-{each}" if rng.random() < 0.3 else None,
            "rack_id": f"rack-{rng.randint(0, 3)}" if rng.random() < 0.5 else None,
            "topics": wanted[each],
            "assigned": assigned[each],
        }
        for each in dict.fromkeys(ids)
    ]
    subscribed = {topic for each in ids for topic in wanted[each]}
    return {
        "assignor": rng.choice(("uniform", "uniform", "range")),
        "partitions": {topic: count for topic, count in counts.items() if topic in subscribed},
        "members": members,
    }


@pytest.mark.parametrize("seed", [1, 2])
def test_random_groups_are_assigned_as_by_kafka(seed: int) -> None:
    rng = random.Random(seed)
    cases = assigned_by_kafka([random_case(rng) for _ in range(CASES)])
    assert len(cases) == CASES
    different = [case for case in cases if assigned_here(case) != case["result"]]
    assert not different, f"{len(different)} of {CASES}, the first one: {json.dumps(different[0])}"


def test_the_sample_of_the_unit_tests_is_what_kafka_says() -> None:
    sample = golden_rows("server_assignors")
    assert assigned_by_kafka(sample) == sample
