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
COMMAND_LINE = DOCS / "cli.md"
SPARK = DOCS / "spark.md"
GUIDES = (
    *("producer", "consumer", "admin", "errors", "options", "groups", "serialization", "testing", "transactions"),
    "client-metrics",
    "clusters",
    "security",
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


def commands_of_sections(page: Path) -> dict[str, list[str]]:
    """Return such lines by the heading of their section; without sections that have none."""
    texts = re.split(r"^##? +(.*)\n", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    sections = {heading: _COMMAND.findall(text) for heading, text in zip(texts[::2], texts[1::2], strict=True)}
    return {heading: lines for heading, lines in sections.items() if lines}
