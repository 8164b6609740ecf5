"""The Python snippets of the documentation run in the order of their page, each page on a broker of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from refbroker.testing import RefBroker
from tests.support.documentation import PAGES, snippets
from tests.support.patience import PROCESS


@pytest.mark.not_simulated("a process of its own runs the snippets")
@pytest.mark.parametrize("page", [page for page in PAGES if snippets(page)], ids=lambda page: page.stem)
def test_the_snippets_of_a_page_run_in_order(page: Path, refbroker: RefBroker) -> None:
    program = "\n".join(snippets(page)).replace("localhost:9092", refbroker.bootstrap_servers)
    done = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", program],
        capture_output=True,
        text=True,
        timeout=PROCESS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
