"""The pages whose Python snippets run in CI, in the order of each page.

A block that begins with three backticks and `python` is part of its page's program; one that begins with
`{ .python .not-run }` instead is shown only.
"""

from __future__ import annotations

import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
DOCS = PROJECT / "docs"
TUTORIAL = DOCS / "getting-started.md"
GUIDES = (
    *("producer", "consumer", "admin", "errors", "options", "groups", "serialization", "testing", "transactions"),
    "client-metrics",
)
PAGES = [
    TUTORIAL,
    *(DOCS / f"{name}.md" for name in GUIDES),
    *sorted(DOCS.glob("howto/*.md")),
    DOCS / "internals" / "worked-examples.md",
]
_SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^    ((?:echo .*\| )?kclient [^#\n]*)", re.MULTILINE)


def snippets(page: Path) -> list[str]:
    """Return the Python snippets of a page, in order."""
    return _SNIPPET.findall(page.read_text(encoding="utf-8"))


def commands(page: Path) -> list[str]:
    """Return the lines of a page that run the command `kclient`, in order."""
    return _COMMAND.findall(page.read_text(encoding="utf-8"))
