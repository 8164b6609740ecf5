"""The throttle times of quotas beside those of Kafka's own classes: random values at random times.

KCLIENT_SECURITY_QUOTAS is the number of cases, of up to 60 values each.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from refbroker.quotas.rates import Rate, TokenBucket, Window
from tests.support.kafka.jars import run_tool
from tests.support.patience import GUARD, PROCESS

PROGRAM = Path(__file__).with_name("java") / "QuotaFormulas.java"
CASES = int(os.environ.get("KCLIENT_SECURITY_QUOTAS", "1000"))
START_MS = 1_700_000_000_000

pytestmark = pytest.mark.usefixtures("needs_kafka")


def random_case(rng: random.Random, kind: str) -> dict[str, Any]:
    """A busy client, one with pauses, or one that is idle for longer than a window now and then."""
    samples, sample_ms = rng.choice(((11, 1000), (2, 1000), (5, 200), (1, 1000), (11, 10_000)))
    pauses = rng.choice(((0, 1, 7), (0, 50, 999, 1000, 1001), (1, 500, sample_ms, 12 * sample_ms, 13 * sample_ms + 1)))
    now, largest = START_MS, rng.choice((10, 1000, 1e6))
    steps: list[tuple[int, float]] = []
    for _ in range(rng.randint(1, 60)):
        now += rng.choice(pauses)
        steps.append((now, rng.choice((rng.uniform(0, largest), rng.randint(0, int(largest))))))
        if kind == "rate" and rng.random() < 0.1:
            steps.append((now, -steps[-1][1]))
    quota = rng.choice((1.0, 10.5, largest / 3, largest))
    return {"kind": kind, "samples": samples, "sample_ms": sample_ms, "quota": quota, "steps": steps}


def throttled_here(case: dict[str, Any]) -> list[int]:
    window, quota = Window(case["samples"], case["sample_ms"]), case["quota"]
    rate, bucket = Rate(window), TokenBucket(window)
    throttled = []
    for now, value in case["steps"]:
        if case["kind"] == "rate":
            rate.record(value, now)
            throttled.append(rate.throttle_ms(quota, now) if value >= 0 else 0)
        else:
            bucket.take(value, quota, now)
            throttled.append(bucket.throttle_ms(quota, now))
    return throttled


@pytest.mark.timeout(GUARD + CASES / 50)
def test_throttle_times_are_those_of_kafka(rng: random.Random) -> None:
    # One process for both kinds: it takes longer to start than to answer.
    cases = [random_case(rng, kind) for kind in ("rate", "bucket") for _ in range(CASES)]
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    output = run_tool(str(PROGRAM), input=lines, timeout=PROCESS + CASES / 100).stdout
    answered = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    assert len(answered) == len(cases), output[-2000:]
    for of_kind in (answered[:CASES], answered[CASES:]):
        throttled = [time_ms for case in of_kind for time_ms in case["throttle_ms"]]
        assert 0.1 < sum(map(bool, throttled)) / len(throttled) < 0.9
    different = [
        (case, index, ours, theirs)
        for case in answered
        for index, (ours, theirs) in enumerate(zip(throttled_here(case), case["throttle_ms"], strict=True))
        # Both add up numbers with a fraction, in another order.
        if abs(ours - theirs) > max(1, 1e-9 * theirs)
    ]
    assert not different, f"{len(different)} throttle times differ, the first: {different[0]}"
