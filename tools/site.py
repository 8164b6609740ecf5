"""A hook of mkdocs that brings the pages outside of `docs/` into the site, and adapts links to files of the repository.

README.md becomes the first page; DESIGN.md, CONTRIBUTING.md and CHANGELOG.md become pages beside it. On the forge all
pages keep working as they are, because only the copies in the site change. A link to a file that is no page, such as an
example, becomes the path of the file as code: the site does not know where the repository is hosted.

Elsewhere: that the links lead somewhere on the forge (tools/check_docs.py).
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

PROJECT = Path(__file__).resolve().parent.parent
OUTSIDE = {"README.md": "index.md", "DESIGN.md": "DESIGN.md", "CONTRIBUTING.md": "CONTRIBUTING.md"}
OUTSIDE["CHANGELOG.md"] = "CHANGELOG.md"
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the repository's root."""
    for source, target in OUTSIDE.items():
        files.append(File.generated(config, target, content=(PROJECT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Return the page with each relative link as it is valid in the site."""
    target = page.file.src_uri
    source = {moved: name for name, moved in OUTSIDE.items()}.get(target, f"docs/{target}")

    def adapted(link: re.Match[str]) -> str:
        text, address = link.groups()
        if re.match(r"[a-z]+:|#", address):
            return link[0]
        path, _, fragment = address.partition("#")
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        inside = OUTSIDE.get(file) or (file.removeprefix("docs/") if file.startswith("docs/") else None)
        if inside == "README.md":
            inside = "index.md"
        if inside is None or not files.get_file_from_path(inside):
            return f"{text} (`{file}`)"
        relative = posixpath.relpath(inside, posixpath.dirname(target) or ".")
        return f"[{text}]({relative}{'#' + fragment if fragment else ''})"

    return LINK.sub(adapted, markdown)
