"""The Python snippets of the tutorial and the how-to guides run in the order of their page, each on its own broker."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from refbroker.testing import RefBroker
from tests.support.patience import PROCESS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = [
    DOCS / "getting-started.md",
    *sorted(DOCS.glob("howto/*.md")),
    DOCS / "client-metrics.md",
    DOCS / "internals" / "worked-examples.md",
]
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def program(page: Path, bootstrap_servers: str) -> str:
    """Return the snippets of a page as one program for this broker."""
    return "\n".join(SNIPPET.findall(page.read_text())).replace("localhost:9092", bootstrap_servers)


@pytest.mark.not_simulated("a process of its own runs the snippets")
@pytest.mark.parametrize(
    "page", [page for page in PAGES if SNIPPET.search(page.read_text())], ids=lambda page: page.stem
)
def test_the_snippets_of_a_page_run_in_order(page: Path, refbroker: RefBroker) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", program(page, refbroker.bootstrap_servers)],
        capture_output=True,
        text=True,
        timeout=PROCESS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
