"""The command line as it is used: each command a process, with pipes for standard input and output."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from kclient import Admin, TopicPartition, __version__, records
from kclient.admin import GroupState
from kclient.security.implementation import tls_implementation
from tests.support.command_line import Cli
from tests.support.patience import PROCESS
from tests.support.waiting import wait_until

START = 1_600_000_000_000


def test_lines_go_in_and_come_out_unchanged(cli: Cli, topic: str) -> None:
    lines = b"one\ntwo\n\xff\xfe not text\n"
    assert cli("produce", topic, "--partition", "0", stdin=lines) == f"3 records produced to {topic}\n".encode()
    assert cli("consume", f"{topic}:0", "--exit-at-end") == lines


@pytest.mark.parametrize("before", [True, False])
def test_the_cluster_option_before_or_after_the_command_overrides_the_environment(
    cli: Cli, bootstrap_servers: str, before: bool
) -> None:
    cli.environment["KCLIENT_BOOTSTRAP_SERVERS"] = "localhost:1"
    where, command = ("-b", bootstrap_servers), ("topics", "list")
    cli(*(where + command if before else command + where))


def test_what_stands_after_the_command_goes_first(cli: Cli, bootstrap_servers: str) -> None:
    cli("-b", "localhost:1", "topics", "list", "-b", bootstrap_servers)


@pytest.mark.parametrize("source", ["--set", "--properties"])
def test_a_cluster_in_the_options_goes_before_the_environment(
    cli: Cli, bootstrap_servers: str, tmp_path: Path, source: str
) -> None:
    cli.environment["KCLIENT_BOOTSTRAP_SERVERS"] = "localhost:1"
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers: {bootstrap_servers}\n", encoding="utf-8")
    value = str(file) if source == "--properties" else f"bootstrap.servers={bootstrap_servers}"
    cli("topics", "list", source, value)


@pytest.mark.not_secured("names plaintext")
def test_a_template_that_names_plaintext_works(cli: Cli, tmp_path: Path) -> None:
    template = tmp_path / "client.properties"
    template.write_text("security.protocol=PLAINTEXT\n")
    cli("topics", "list", "--properties", str(template))
    cli("topics", "list", "--set", "security.protocol=plaintext")


def test_that_there_is_no_broker_is_two_warnings_and_then_the_error(cli: Cli) -> None:
    done = cli.run("-b", "localhost:1", "topics", "list", "--set", "default.api.timeout.ms=2000")
    assert (done.returncode, done.stdout) == (1, b"")
    failed, unreachable, error = done.stderr.decode().splitlines()
    assert failed.startswith("kclient: admin 'kclient': could not connect to localhost:1: Connection refused")
    assert unreachable.startswith(
        "kclient: admin 'kclient': no broker is reachable; the client keeps trying (localhost:1"
    )
    assert error.startswith("kclient: list_topics did not finish within 2 s; the last error was: could not connect")


def test_keys_headers_and_a_template(cli: Cli, topic: str) -> None:
    cli("produce", topic, "-p", "0", "-K", ":", "-H", "source=test", "-z", "zstd", stdin=b"k1:v1\nk2:v2\n")
    shown = cli("consume", topic, "-e", "--format", r"{partition} {offset} {key}={value} [{headers}]\n")
    assert shown == b"0 0 k1=v1 [source:test]\n0 1 k2=v2 [source:test]\n"


def test_json_survives_the_round_trip(cli: Cli, topic: str) -> None:
    records_in = [
        {"key": "a", "value": "1", "headers": [{"name": "h", "value": "x"}], "timestamp": START, "partition": 0},
        {"key": None, "value": None, "partition": 0},
        {"value_base64": "//4=", "partition": 0},
    ]
    cli("produce", topic, "--json", stdin="\n".join(map(json.dumps, records_in)).encode())
    lines = cli("consume", topic, "-e", "--json")
    again = [json.loads(line) for line in lines.splitlines()]
    assert [record["offset"] for record in again] == [0, 1, 2]
    assert (again[0]["key"], again[0]["timestamp"], again[0]["headers"]) == ("a", START, [{"name": "h", "value": "x"}])
    assert (again[1]["value"], again[2]["value_base64"]) == (None, "//4=")
    cli("produce", f"{topic}-copy", "--json", stdin=lines)
    copied = [json.loads(line) for line in cli("consume", f"{topic}-copy", "-e", "--json").splitlines()]
    assert [record.get("value") for record in copied] == [record.get("value") for record in again]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("beginning", b"0123456789"),
        ("7", b"789"),
        ("-2", b"89"),
        (f"@{START + 6}", b"6789"),
        (f"@{START + 1000}", b""),
        ("end", b""),
    ],
)
def test_reading_starts_where_it_is_asked_to(cli: Cli, topic: str, where: str, expected: bytes) -> None:
    lines = [json.dumps({"value": str(number), "timestamp": START + number, "partition": 0}) for number in range(10)]
    cli("produce", topic, "--json", stdin="\n".join(lines).encode())
    assert cli("consume", f"{topic}:0", f"--from={where}", "-e", "--format", "{value}") == expected


def test_count_stops_early(cli: Cli, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"".join(b"%d\n" % number for number in range(1000)))
    cli("produce", topic, str(file), "--partition", "0")
    assert cli("consume", topic, "--count", "3") == b"0\n1\n2\n"


@pytest.mark.not_simulated("runs a process whose reader goes away")
def test_a_reader_that_has_seen_enough_is_an_ordinary_end(cli: Cli, topic: str) -> None:
    cli("produce", topic, "--partition", "0", stdin=b"a line of text\n" * 50_000)
    program = "from kclient.cli.main import main; main()"
    arguments = [sys.executable, "-c", program, "consume", topic, "--exit-at-end"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=cli.environment) as consume:
        assert consume.stdout is not None
        assert consume.stderr is not None
        assert consume.stdout.readline() == b"a line of text\n"
        consume.stdout.close()
        assert (consume.stderr.read(), consume.wait(PROCESS)) == (b"", 0)


@pytest.mark.not_simulated("sends a signal to a process")
def test_a_member_of_a_group_that_is_terminated_commits_and_leaves(cli: Cli, admin: Admin, topic: str) -> None:
    group = f"group-of-{topic}"
    cli("topics", "create", topic, "--partitions", "1")
    cli("produce", topic, stdin=b"one\ntwo\n")
    arguments = [sys.executable, "-m", "kclient", "consume", topic, "--group", group]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=cli.environment) as consume:
        assert consume.stdout is not None
        assert [consume.stdout.readline(), consume.stdout.readline()] == [b"one\n", b"two\n"]
        consume.terminate()
        assert consume.wait(PROCESS) == 143
    assert admin.describe_groups(group)[group].state is GroupState.EMPTY
    # Whether the signal came before or after the two lines counted as printed is a race.
    assert list(admin.list_group_offsets(group)[group]) == [TopicPartition(topic, 0)]


def test_topics_from_creation_to_deletion(cli: Cli, topic: str) -> None:
    assert cli("topics", "create", topic, "--partitions", "2", "-c", "retention.ms=1000").startswith(
        f"{topic}\t2\t".encode()
    )
    assert topic.encode() in cli("topics", "list").splitlines()
    cli("topics", "add-partitions", topic, "3")
    described = json.loads(cli("topics", "describe", topic, "--json"))
    assert [each["partition"] for each in described[topic]["partitions"]] == [0, 1, 2]
    assert len(cli("topics", "describe", topic).splitlines()) == 3
    cli("topics", "delete", topic)
    assert topic.encode() not in cli("topics", "list").splitlines()


def test_settings_are_described_set_and_deleted(cli: Cli, topic: str) -> None:
    cli("topics", "create", topic)
    cli("configs", "set", "retention.ms=4321", "--topic", topic)
    # A broker learns of a change a moment after the controller made it.
    line = b"retention.ms\t4321\tdynamic_topic_config\n"
    wait_until(lambda: line in cli("configs", "describe", "--topic", topic))
    cli("configs", "delete", "retention.ms", "--topic", topic)

    def is_deleted() -> bool:
        described = json.loads(cli("configs", "describe", "--topic", topic, "--all", "--json"))
        setting = described["retention.ms"]
        return bool(setting["source"] == "DEFAULT_CONFIG" or setting["value"] != "4321")

    wait_until(is_deleted)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["topics", "describe", "there-is-no-such-topic"], 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (["produce", "t", "--set", "lingerms=3"], 2, "did you mean 'linger.ms'"),
        (["produce", "t", "--set", "linger.ms"], 2, "OPTION=VALUE"),
        (["consume", "t", "--from", "somewhere"], 2, "@TIME"),
        (["consume", "t", "--format", "{nothing}"], 2, "there is no field"),
        (["consume", "t", "--set", "group.id=g"], 2, "use --group NAME to read as a member"),
        (["consume", "t:0", "--group", "g"], 2, "pass topics without partitions"),
        (["configs", "describe"], 2, "either --topic or --broker"),
        (["consume", "there-is-no-such-topic", "-e"], 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (["consume", "there-is-no-such-topic:0", "-e"], 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (["configs", "describe", "--broker", "4711"], 1, "no broker 4711"),
        (["topics", "list", "-b", "localhost:"], 2, '"host:port"'),
        (["topics", "list", "--set", "security.protocol=SASL_SSL"], 2, "needs sasl_mechanism"),
        (["topics", "list", "--set", "retries=3"], 2, "there is no option 'retries'"),
    ],
)
def test_errors_are_one_line_and_an_exit_code(cli: Cli, arguments: list[str], code: int, text: str) -> None:
    done = cli.run(*arguments)
    assert (done.returncode, done.stdout) == (code, b"")
    assert text in " ".join(done.stderr.decode().replace("│", " ").split())
    assert b"Traceback" not in done.stderr


def test_a_misspelt_topic_is_not_created(cli: Cli, topic: str) -> None:
    assert cli.run("consume", topic, "-e").returncode == 1
    assert topic.encode() not in cli("topics", "list").splitlines()


def test_a_partition_that_is_not_there_is_an_error(cli: Cli, topic: str) -> None:
    cli("topics", "create", topic, "--partitions", "2")
    done = cli.run("consume", f"{topic}:2", "-e")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"no partition 2, only 0 to 1" in done.stderr


def test_a_wrong_line_and_what_was_produced_before_it_are_reported(cli: Cli, topic: str) -> None:
    done = cli.run("produce", topic, "-K", ":", stdin=b"k:v\nv\n")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode().splitlines() == [
        "kclient: line 2: there is no key separator ':'; this line and the following ones were not sent",
        f"1 record produced to {topic}",
    ]


@pytest.mark.not_simulated("runs a process at a terminal")
def test_at_a_terminal_records_stand_alone_in_their_lines(cli: Cli, topic: str) -> None:
    cli("produce", topic, stdin=b"one\ntwo\n")
    screen, terminal = os.openpty()
    program = "from kclient.cli.main import main; main()"
    arguments = [sys.executable, "-c", program, "consume", topic, "-e"]
    try:
        with os.fdopen(terminal, "wb") as theirs:
            done = subprocess.run(
                arguments, stdout=theirs, stderr=theirs, env=cli.environment, timeout=PROCESS, check=False
            )
        # What was written comes through piece by piece, and then an error (Linux) or nothing: the other end is closed.
        shown = b""
        with contextlib.suppress(OSError):
            while piece := os.read(screen, 65536):
                shown += piece
    finally:
        os.close(screen)
    assert done.returncode == 0
    assert shown.startswith(b"one\r\ntwo\r\n")
    assert b"2 records" in shown


def test_the_version_names_the_implementation(cli: Cli) -> None:
    assert cli("--version").decode().strip() == (
        f"kclient {__version__} ({records.IMPLEMENTATION} modules, {tls_implementation()} TLS, "
        f"Python {platform.python_version()})"
    )
