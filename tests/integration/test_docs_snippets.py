"""The Python snippets and commands of the documentation run in the order of their page, each page on its own broker."""

from __future__ import annotations

import json
import os
import re
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from kclient import Admin, NewTopic, Producer
from kclient.types import TopicPartition
from refbroker.testing import RefBroker
from tests.support.documentation import (
    COMMAND_LINE,
    PAGES,
    PROJECT,
    TUTORIAL,
    commands,
    commands_of_sections,
    snippets,
)
from tests.support.patience import ANSWER, PROCESS

pytestmark = pytest.mark.not_simulated("processes run the snippets")


def run_program(text: str, broker: RefBroker) -> None:
    program = text.replace("localhost:9092", broker.bootstrap_servers)
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROCESS, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr


@pytest.mark.parametrize("page", [page for page in PAGES if snippets(page)], ids=lambda page: page.stem)
def test_the_snippets_of_a_page_run_in_order(page: Path, refbroker: RefBroker) -> None:
    run_program("\n".join(snippets(page)), refbroker)


def test_each_step_of_the_tutorial_runs_as_a_program_of_its_own(refbroker: RefBroker, shell: Shell) -> None:
    for snippet in snippets(TUTORIAL):
        run_program(snippet, refbroker)
    for line in commands(TUTORIAL):
        shell.run(line)


def test_the_commands_of_readme_run_in_order(shell: Shell) -> None:
    for line in commands(PROJECT / "README.md"):
        shell.run(line)


@pytest.mark.refbroker(acls=True, sasl={"admin": "secret"}, settings={"delegation.token.secret.key": "key"})
@pytest.mark.parametrize(
    "section",
    [
        # Its commands run until Ctrl-C, each a new process.
        pytest.param(section, marks=pytest.mark.nightly) if section == "Consume" else section
        for section in commands_of_sections(COMMAND_LINE)
    ],
)
def test_the_commands_of_the_command_line_run(section: str, shell: Shell) -> None:
    if section != "Topics":
        shell.prepare()
    for line in commands_of_sections(COMMAND_LINE)[section]:
        options = set(line.split())
        if not line.startswith("kclient consume") or options & {"-e", "--exit-at-end"}:
            shell.run(line)
        elif options & {"-n", "--count"}:
            shell.run_while_records_arrive(line)
        else:
            shell.interrupt(line)


PACE = 0.1
"""Seconds between the records that arrive while a command runs."""

STORED = 4711
"""The offset of the open transaction in the page of the command line."""
TOKEN_ID = "8XkX9lQZQdq2lW0o0y6v0g"
"""The id of a delegation token in the same page."""


class Shell:
    """Runs the commands of a page in an empty directory, where `kclient` is this project's.

    Parameters:
        broker: the cluster; the addresses in the commands are replaced by its.
        directory: the empty directory.
    """

    def __init__(self, broker: RefBroker, directory: Path) -> None:
        self._servers = broker.bootstrap_servers
        self._options = broker.client_options
        self._directory = directory
        self._token_id = TOKEN_ID
        self._start = STORED
        self._open = ExitStack()
        program = directory / "bin" / "kclient"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m kclient "$@"\n')
        program.chmod(0o755)
        self._environment = {
            **os.environ,
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")])),
            "KCLIENT_BOOTSTRAP_SERVERS": self._servers,
        }
        if len(self._options) > 1:
            self._write_profile("secured")
            self._environment |= {"XDG_CONFIG_HOME": str(directory), "KCLIENT_PROFILE": "secured"}

    def _write_profile(self, name: str) -> None:
        path = self._directory / "kclient" / "config.toml"
        path.parent.mkdir()
        path.touch(mode=0o600)
        # A string of JSON is one of TOML.
        lines = [f"{option} = {json.dumps(value)}\n" for option, value in self._options.items()]
        path.write_text(f"[{name}]\n{''.join(lines)}")

    def prepare(self) -> None:
        """Create the topics, group, transactions and files that the commands use."""
        (self._directory / "input.txt").write_text("one\ntwo\n")
        (self._directory / "lines").write_text("three\n")
        (self._directory / "password.txt").write_text("secret\n")
        (self._directory / "records.jsonl").write_text('{"key": "k", "value": "v", "partition": 2}\n')
        with Admin(**self._options) as admin:
            admin.create_topics([NewTopic("orders", num_partitions=6), NewTopic("orders-copy", num_partitions=2)])
            admin.alter_group_offsets("billing", {TopicPartition("orders", number): 0 for number in range(6)})
            if len(self._options) > 1:
                self._token_id = admin.create_delegation_token().token_id
        with Producer(**self._options) as producer:
            for number in range(12):
                producer.send("orders", b'{"amount": %d}' % number, partition=number % 6)
        for name in ("etl-1", "etl-2"):
            owner = self._open.enter_context(Producer(transactional_id=name, **self._options))
            owner.init_transactions()
            owner.begin_transaction()
            self._start = owner.send("orders", b"open", partition=0).result(ANSWER).offset

    def run(self, line: str) -> None:
        """Run a command, which must succeed."""
        with self._started(line) as process:
            _, errors = process.communicate(timeout=PROCESS)
            assert (process.returncode, b"Traceback" in errors) == (0, False), f"{line}\n{errors.decode()}"

    def run_while_records_arrive(self, line: str) -> None:
        """Run a command that ends after a number of records, more than a group may find uncommitted."""
        with self._started(line) as process, Producer(**self._options) as producer:
            for _ in range(int(PROCESS / PACE)):
                self._send_records(producer)
                with suppress(subprocess.TimeoutExpired):
                    _, errors = process.communicate(timeout=PACE)
                    break
            else:
                process.kill()
                pytest.fail(f"still running: {line}")
            assert (process.returncode, b"Traceback" in errors) == (0, False), f"{line}\n{errors.decode()}"

    def interrupt(self, line: str) -> None:
        """Run a command until it has printed a line, and end it with Ctrl-C."""
        with (
            self._started(line) as process,
            Producer(**self._options) as producer,
            selectors.DefaultSelector() as output,
        ):
            assert process.stdout is not None
            output.register(process.stdout, selectors.EVENT_READ)
            while not output.select(PACE):
                assert process.poll() is None, process.communicate()
                self._send_records(producer)
            os.killpg(process.pid, signal.SIGINT)
            _, errors = process.communicate(timeout=PROCESS)
            assert (process.returncode, b"Traceback" in errors) == (130, False), f"{line}\n{errors.decode()}"

    def close(self) -> None:
        """Close the producers, one of which has been fenced."""
        self._open.close()

    @staticmethod
    def _send_records(producer: Producer) -> None:
        for partition in range(6):
            producer.send("orders", b"{}", partition=partition)

    def _started(self, line: str) -> subprocess.Popen[bytes]:
        command = re.sub(r"kafka-\d:9092(,kafka-\d:9092)*", self._servers, line)
        command = (
            command.replace(str(STORED), str(self._start))
            .replace("jq ", "jq --unbuffered ")
            .replace(TOKEN_ID, self._token_id)
        )
        return subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self._directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )


@pytest.fixture
def shell(refbroker: RefBroker, tmp_path: Path) -> Iterator[Shell]:
    pytest.importorskip("typer", reason="the extra cli is not installed")
    with closing(Shell(refbroker, tmp_path)) as made:
        yield made
