"""What `kclient groups` makes of files."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from kclient.cli.groups import _read
from kclient.types import TopicPartition


def offsets(folder: Path, text: str) -> Path:
    file = folder / "offsets.csv"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize("text", ["t,0,5\nt,1,6\n", '"g","t",0,5\nother,t,0,99\n"g","t",1,6\n', "t,0,5\n\nt,1,6"])
def test_files_are_read_as_kafkas_tool_writes_them(tmp_path: Path, text: str) -> None:
    assert _read(offsets(tmp_path, text), "g") == {TopicPartition("t", 0): 5, TopicPartition("t", 1): 6}


@pytest.mark.parametrize("line", ["t,0", "t,zero,5", "t,0,-5", "t", "a,b,c,0,5", "topic,partition,offset"])
def test_an_invalid_line_is_named(tmp_path: Path, line: str) -> None:
    with pytest.raises(typer.BadParameter, match="line 2 is not topic,partition,offset"):
        _read(offsets(tmp_path, f"t,0,5\n{line}\n"), "g")


def test_a_file_without_the_group_is_an_error(tmp_path: Path) -> None:
    for text in ("", "other,t,0,5\n"):
        with pytest.raises(typer.BadParameter, match="has no offsets for the group 'g'"):
            _read(offsets(tmp_path, text), "g")
