"""The search for import cycles (`tools/cycles.py`)."""

from __future__ import annotations

import sys
from pathlib import Path

import grimp
import pytest

from tools.cycles import cycles, main

LOW = """
from circular.high import (
    A,
    B,
)
"""
HIGH = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from circular.low import Low
"""


@pytest.mark.parametrize(
    ("imports", "expected"),
    [
        pytest.param("ab bc", [], id="a chain"),
        pytest.param("ab ac bd cd", [], id="a diamond"),
        pytest.param("ab ba", ["ab"], id="two modules"),
        pytest.param("ab bc ca cd", ["abc"], id="three modules, and one below"),
        pytest.param("ab ba bc cd dc", ["ab", "cd"], id="two cycles, one above the other"),
        pytest.param("ab ba ac ca", ["abc"], id="two cycles with a module in common"),
    ],
)
def test_modules_that_lead_to_each_other_are_a_cycle(imports: str, expected: list[str]) -> None:
    graph = grimp.ImportGraph()
    for importer, imported in map(tuple, imports.split()):
        graph.add_import(importer=importer, imported=imported)
    assert ["".join(found) for found in cycles(graph)] == expected


def package(path: Path, **modules: str) -> None:
    """Write a package of these modules."""
    path.mkdir()
    (path / "__init__.py").touch()
    for module, text in modules.items():
        (path / f"{module}.py").write_text(text)


def test_an_import_for_type_checkers_closes_a_cycle_whose_imports_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    package(tmp_path / "circular", low=LOW, high=HIGH, above="from circular.high import High")
    assert main(tmp_path, ["circular"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "2 files import each other:",
        "  circular/high.py:4: from circular.low import Low",
        "  circular/low.py:2: from circular.high import A, B",
        "",
        "4 files of circular: 1 import cycles",
    ]


def test_packages_without_a_cycle_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    package(tmp_path / "layered", low="", high="from layered import low")
    assert main(tmp_path, ["layered"]) == 0
    assert capsys.readouterr().out == "3 files of layered: 0 import cycles\n"
