"""The snippets of README and of the documentation pass mypy --strict, as a reader's own program would."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.documentation import PAGES, PROJECT, snippets
from tests.support.patience import PROCESS

pytest.importorskip("mypy", reason="mypy is not installed")


def programs() -> dict[str, str]:
    """Return the snippets by file name: those of a page together; of README each by itself, without PySpark."""
    found = {f"page_{page.stem}".replace("-", "_"): "\n".join(snippets(page)) for page in PAGES}
    for number, snippet in enumerate(snippets(PROJECT / "README.md")):
        if "pyspark" not in snippet:
            found[f"readme_{number}"] = snippet
    return found


def test_snippets_are_typed_as_strictly_as_mypy_can(tmp_path: Path) -> None:
    for name, text in programs().items():
        (tmp_path / f"{name}.py").write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(tmp_path)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=PROCESS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
