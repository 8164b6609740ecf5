"""Check the documentation against the code: ``python tools/check_docs.py``; ``--write`` renews the generated parts.

- every relative link leads to a file, and its #anchor to a heading there;
- every ``python`` block compiles, and what it imports from kclient and refbroker exists;
- the text between ``<!-- generated: NAME -->`` and ``<!-- end generated -->`` is the current output of
  tools/generated_docs.py (option tables, error tables, state diagrams).
"""

from __future__ import annotations

import argparse
import ast
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)
GENERATED = re.compile(r"(<!-- generated: (?P<name>[\w ]+) -->\n)(?P<body>.*?)(<!-- end generated -->)", re.DOTALL)


def pages() -> list[Path]:
    """Return every Markdown page of the project."""
    return [*sorted(PROJECT.glob("*.md")), *sorted((PROJECT / "docs").rglob("*.md"))]


def anchor(heading: str) -> str:
    """Return the anchor of a heading, as the forge creates it."""
    plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def broken_links(page: Path, text: str) -> Iterator[str]:
    """Yield the links of a page that lead nowhere inside the project."""
    for target in LINK.findall(FENCE.sub("", text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, fragment = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            yield f"link to {target}: the file does not exist"
        elif fragment and file.suffix == ".md":
            headings = HEADING.findall(FENCE.sub("", file.read_text(encoding="utf-8")))
            if fragment not in {anchor(heading) for heading in headings}:
                yield f"link to {target}: the heading does not exist"


def broken_examples(page: Path, text: str) -> Iterator[str]:
    """Yield the Python blocks that do not compile, or import names that do not exist."""
    for fence in FENCE.finditer(text):
        if fence[1] != "python":
            continue
        line = text.count("\n", 0, fence.start()) + 2
        try:
            tree = compile(fence[2], page.name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        except SyntaxError as error:
            yield f"example at line {line}: {error}"
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                yield from (
                    f"example at line {line}: {node.module} has no {name.name}"
                    for name in node.names
                    if node.module.split(".")[0] in ("kclient", "refbroker") and not _exists(node.module, name.name)
                )


def _exists(module: str, name: str) -> bool:
    try:
        if hasattr(importlib.import_module(module), name):
            return True
        importlib.import_module(f"{module}.{name}")
    except ImportError:
        return False
    return True


def renew(text: str) -> str:
    """Return the page with current generated parts."""
    generate = importlib.import_module("generated_docs").generate
    return GENERATED.sub(lambda part: f"{part[1]}{generate(part['name'])}{part[4]}", text)


def main() -> int:
    """Check all pages; return 1 if there are complaints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="renew the generated parts")
    write = parser.parse_args().write
    complaints = 0
    for page in pages():
        text = page.read_text(encoding="utf-8")
        found = [*broken_links(page, text), *broken_examples(page, text)]
        try:
            renewed = renew(text)
        except (AttributeError, ImportError) as error:
            renewed = text
            found.append(f"a part cannot be generated: {error}")
        if renewed != text and write:
            page.write_text(renewed, encoding="utf-8")
            print(f"{page.relative_to(PROJECT)}: renewed")
        elif renewed != text:
            found.append("a generated part is out of date: make docs ARGS=--write")
        for complaint in found:
            print(f"{page.relative_to(PROJECT)}: {complaint}")
        complaints += len(found)
    print(f"{len(pages())} pages checked, {complaints} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.path[:0] = [str(PROJECT), str(PROJECT / "tools")]
    sys.exit(main())
