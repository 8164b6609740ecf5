"""`kclient transactions` as it is used, in a pipe."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from kclient import Admin, NewTopic
from kclient.admin import AlterConfig, ConfigResource, TransactionState
from kclient.errors import InvalidProducerEpochError, ProducerFencedError, TransactionAbortableError
from kclient.types import PreparedTransaction
from tests.support.command_line import Cli
from tests.support.raw_transactions import RawTransactions
from tests.support.waiting import wait_until


@pytest.fixture
def made(admin: Admin, topic: str) -> str:
    """A topic of two partitions."""
    admin.create_topics([NewTopic(topic, 2)])
    return topic


@pytest.fixture
def name(topic: str) -> str:
    return f"id-of-{topic}"


@pytest.fixture
def opened(admin: Admin, raw: RawTransactions, made: str, name: str) -> Iterator[PreparedTransaction]:
    """A transaction with a record in partition 0."""
    transaction = raw.prepared(name, made, b"one")
    yield transaction
    admin.fence_producers(name)


def test_transactions_are_listed(cli: Cli, opened: PreparedTransaction, name: str) -> None:
    def lines(*arguments: str) -> list[str]:
        return [line for line in cli("transactions", "list", *arguments).decode().splitlines() if line.startswith(name)]

    (line,) = lines()
    assert line.split("\t")[:3] == [name, "Ongoing", str(opened.producer_id)]
    assert lines("--state", "ongoing", "--pattern", f"{name}.*", "--longer-than", "PT0S") == [line]
    assert lines("--producer-id", str(opened.producer_id)) == [line]
    assert lines("--state", "prepare-commit", "--state", "EMPTY") == []
    assert json.loads(cli("transactions", "list", "--json"))[name]["state"] == "Ongoing"


def test_what_a_transaction_has_written_to_is_described(
    cli: Cli, opened: PreparedTransaction, made: str, name: str
) -> None:
    done = cli.run("transactions", "describe", name, f"{name}-none")
    assert done.returncode == 1
    assert done.stderr.decode().startswith(f"kclient: {name}-none: TRANSACTIONAL_ID_NOT_FOUND")
    (line,) = done.stdout.decode().splitlines()
    shown, state, producer_id, epoch, timeout_ms, began, _, partitions = line.split("\t")
    assert (shown, state, timeout_ms, partitions) == (name, "Ongoing", "60000", f"{made}-0")
    assert (producer_id, epoch) == (str(opened.producer_id), str(opened.epoch))
    assert began.endswith("+00:00")
    found = json.loads(cli("transactions", "describe", name, "--json"))[name]
    assert found["partitions"] == [{"topic": made, "partition": 0}]


def test_producers_of_partitions_are_described(cli: Cli, opened: PreparedTransaction, made: str) -> None:
    line = f"{made}\t0\t{opened.producer_id}\t{opened.epoch}\t\t0\t2020-09-13T12:26:40.000+00:00\t0\n".encode()
    assert cli("transactions", "describe-producers", made) == line
    assert cli("transactions", "describe-producers", f"{made}:0,1", made) == line
    (found,) = json.loads(cli("transactions", "describe-producers", made, "--json"))
    assert (found["transaction start"], found["coordinator epoch"]) == (0, None)


def test_a_producer_is_fenced(cli: Cli, raw: RawTransactions, opened: PreparedTransaction, name: str) -> None:
    shown, producer_id, epoch = cli("transactions", "fence", name).decode().split()
    assert (shown, producer_id) == (name, str(opened.producer_id))
    assert int(epoch) > opened.epoch
    with pytest.raises((ProducerFencedError, InvalidProducerEpochError)):
        raw.end(opened, commit=True)


def test_a_hanging_transaction_is_found_and_aborted(
    cli: Cli, admin: Admin, raw: RawTransactions, made: str, name: str
) -> None:
    assert cli("transactions", "find-hanging", "--topic", made) == b""
    everyone, setting = ConfigResource.broker(), "transaction.partition.verification.enable"
    left = raw.start(name)
    admin.incremental_alter_configs({everyone: [AlterConfig.set(setting, False)]})

    def is_taken() -> bool:
        try:
            raw.write(left, made, b"lost", partition=1)
        except TransactionAbortableError:  # the broker has not learned of the setting yet
            return False
        return True

    try:
        wait_until(is_taken)
    finally:
        admin.incremental_alter_configs({everyone: [AlterConfig.delete(setting)]})
    line = f"{made}\t1\t0\t{left.producer_id}\t{left.epoch}\t\t2020-09-13T12:26:40.000+00:00\t{name}\n".encode()
    assert cli("transactions", "find-hanging", "--topic", made) == line
    (found,) = json.loads(cli("transactions", "find-hanging", "--topic", made, "--max-timeout", "PT1M", "--json"))
    assert (found["start_offset"], found["transactional_id"]) == (0, name)
    done = cli.run("transactions", "abort", f"{made}:1", "--start-offset", "7")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"no open transaction starts at offset 7; open ones start at 0" in done.stderr
    assert cli("transactions", "abort", f"{made}:1", "--start-offset", "0") == f"{made}\t1\n".encode()
    assert cli("transactions", "find-hanging", "--topic", made) == b""
    assert admin.describe_transactions(name)[name].state is TransactionState.EMPTY


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["list", "--state", "idle"], "there is no 'idle', only Empty, Ongoing, PrepareCommit"),
        (["list", "--longer-than", "1h"], "--longer-than: '1h' is not a duration in ISO 8601"),
        (["find-hanging", "--max-timeout", "60"], "--max-timeout: '60' is not a duration in ISO 8601"),
        (["abort", "t", "--start-offset", "0"], "'t' is not TOPIC:PARTITION"),
        (["abort", "t:0,1", "--start-offset", "0"], "'t:0,1' is not TOPIC:PARTITION"),
        (["abort", "t:0"], "either start_offset, or producer_id and producer_epoch"),
        (["describe-producers", "t:x"], "'t:x' is not TOPIC or TOPIC:PARTITION,..."),
    ],
)
def test_what_is_wrong_on_the_command_line_is_named(cli: Cli, arguments: list[str], text: str) -> None:
    done = cli.run("transactions", *arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert text in " ".join(done.stderr.decode().replace("│", " ").split())
