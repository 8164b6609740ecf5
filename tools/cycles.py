"""List the import cycles of the packages: ``python tools/cycles.py [PACKAGE...]``; the status is 1 if there is one.

Imports under TYPE_CHECKING and inside functions count too, because they tie files together for their readers. A cycle
is a maximal set of files that all lead to each other; every import within it is listed with file and line. Not
implemented: imports by compiled modules, and by name at run time (`importlib`).
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path

import grimp

PROJECT = Path(__file__).resolve().parent.parent


def cycles(graph: grimp.ImportGraph) -> Iterator[list[str]]:
    """Yield the strongly connected components of more than one module."""
    seen: set[str] = set()
    for module in sorted(graph.modules):
        if module not in seen:
            component = graph.find_upstream_modules(module) & graph.find_downstream_modules(module) | {module}
            seen |= component
            if len(component) > 1:
                yield sorted(component)


def imports_within(graph: grimp.ImportGraph, cycle: Collection[str], project: Path) -> Iterator[str]:
    """Yield the imports between the modules of a cycle, by file and line, with the imported names."""
    for importer in cycle:
        file = Path(*importer.split("."))
        file = file / "__init__.py" if (project / file).is_dir() else file.with_suffix(".py")
        nodes = ast.walk(ast.parse((project / file).read_bytes()))
        statements = {node.lineno: ast.unparse(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)}
        for imported in sorted(graph.find_modules_directly_imported_by(importer).intersection(cycle)):
            for found in graph.get_import_details(importer=importer, imported=imported):
                yield f"{file}:{found['line_number']}: {statements[found['line_number']]}"


def main(project: Path, packages: Collection[str]) -> int:
    """Print the cycles of packages of a project; return the exit status."""
    sys.path.insert(0, str(project))
    graph = grimp.build_graph(*packages, exclude_type_checking_imports=False, cache_dir=None)
    found = sorted(cycles(graph), key=len)
    for cycle in found:
        print(f"{len(cycle)} files import each other:", *imports_within(graph, cycle, project), sep="\n  ", end="\n\n")
    print(f"{len(graph.modules)} files of {', '.join(packages)}: {len(found)} import cycles")
    return bool(found)


def root_packages() -> list[str]:
    """Return the packages of the import contracts."""
    with (PROJECT / "pyproject.toml").open("rb") as settings:
        names: list[str] = tomllib.load(settings)["tool"]["importlinter"]["root_packages"]
    return names


if __name__ == "__main__":
    sys.exit(main(PROJECT, sys.argv[1:] or root_packages()))
