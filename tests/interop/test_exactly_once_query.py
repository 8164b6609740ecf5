"""Processes that write the batches of a query exactly once, killed with SIGKILL in the middle, on both brokers."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kclient import Admin, NewTopic
from tests.interop.exactly_once_query import BATCHES
from tests.support.patience import GUARD
from tests.support.reading import committed
from tests.support.spark_stand_in import batches_of, expected

MOST = 40


@pytest.mark.timeout(GUARD + 20 * MOST)
@pytest.mark.parametrize("tasks", [1, 4])
@pytest.mark.parametrize("which", ["refbroker_process", "kafka"])
def test_a_query_whose_processes_are_killed_writes_every_row_once(
    request: pytest.FixtureRequest, topic: str, tmp_path: Path, rng: random.Random, which: str, tasks: int
) -> None:
    servers = request.getfixturevalue(which).bootstrap_servers
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, 3)])
    kills = 0
    for _ in range(MOST):
        program = [sys.executable, "-m", "tests.interop.exactly_once_query", servers, topic, str(tasks), str(tmp_path)]
        ended = subprocess.run([*program, str(rng.randrange(1 << 30))], stdin=subprocess.DEVNULL, check=False)
        if ended.returncode == 0:
            break
        assert ended.returncode == -signal.SIGKILL
        kills += 1
    assert ended.returncode == 0
    assert kills > 0
    assert committed(servers, topic) == expected(batches_of(BATCHES, tasks))
