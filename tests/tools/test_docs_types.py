"""The snippets of README, the tutorial and the how-to guides pass mypy --strict, as a reader's own program would."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import PROCESS

pytest.importorskip("mypy", reason="mypy is not installed")

PROJECT = Path(__file__).resolve().parents[2]
DOCS = PROJECT / "docs"
PAGES = [
    DOCS / "getting-started.md",
    *sorted(DOCS.glob("howto/*.md")),
    DOCS / "internals" / "worked-examples.md",
]
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def programs() -> dict[str, str]:
    """Return the snippets by file name: those of a page together; of README each by itself, without PySpark."""
    found = {f"page_{page.stem}".replace("-", "_"): "\n".join(SNIPPET.findall(page.read_text())) for page in PAGES}
    for number, snippet in enumerate(SNIPPET.findall((PROJECT / "README.md").read_text())):
        if "pyspark" not in snippet:
            found[f"readme_{number}"] = snippet
    return found


def test_snippets_are_typed_as_strictly_as_mypy_can(tmp_path: Path) -> None:
    for name, text in programs().items():
        (tmp_path / f"{name}.py").write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(tmp_path)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=PROCESS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
