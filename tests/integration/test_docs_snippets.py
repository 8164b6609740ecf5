"""The Python snippets of the documentation run in the order of their page, each page on a broker of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from refbroker.testing import RefBroker
from tests.support.documentation import PAGES, PROJECT, TUTORIAL, commands, snippets
from tests.support.patience import PROCESS

pytestmark = pytest.mark.not_simulated("processes run the snippets")


def run(command: list[str], **environment: str) -> str:
    """Run a command to its end, and return its output."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=PROCESS,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def run_program(text: str, broker: RefBroker) -> None:
    program = text.replace("localhost:9092", broker.bootstrap_servers)
    run([sys.executable, "-W", "error::ResourceWarning", "-c", program])


@pytest.mark.parametrize("page", [page for page in PAGES if snippets(page)], ids=lambda page: page.stem)
def test_the_snippets_of_a_page_run_in_order(page: Path, refbroker: RefBroker) -> None:
    run_program("\n".join(snippets(page)), refbroker)


def run_commands(page: Path, broker: RefBroker) -> None:
    for line in commands(page):
        command = line.replace("kclient", f"{sys.executable} -m kclient", 1)
        run(["bash", "-euo", "pipefail", "-c", command], KCLIENT_BOOTSTRAP_SERVERS=broker.bootstrap_servers)


def test_each_step_of_the_tutorial_runs_as_a_program_of_its_own(refbroker: RefBroker) -> None:
    pytest.importorskip("typer", reason="the extra cli is not installed")
    for snippet in snippets(TUTORIAL):
        run_program(snippet, refbroker)
    run_commands(TUTORIAL, refbroker)


def test_the_commands_of_readme_run_in_order(refbroker: RefBroker) -> None:
    pytest.importorskip("typer", reason="the extra cli is not installed")
    run_commands(PROJECT / "README.md", refbroker)
