"""What `kclient groups` makes of names, partitions and files."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from kclient.admin import GroupState, GroupType
from kclient.cli.groups import _named, _partitions, _read
from kclient.types import TopicPartition


@pytest.mark.parametrize("text", ["PreparingRebalance", "preparing_rebalance", "preparing-rebalance"])
def test_states_are_named_as_anyone_writes_them(text: str) -> None:
    assert _named(GroupState, text, "--state") is GroupState.PREPARING_REBALANCE
    with pytest.raises(typer.BadParameter, match="only Classic, Consumer, Share, Streams"):
        _named(GroupType, text, "--type")


def test_a_topic_is_all_its_partitions_or_some() -> None:
    assert _partitions("t") == ["t"]
    assert _partitions("t:0,12") == [TopicPartition("t", 0), TopicPartition("t", 12)]


@pytest.mark.parametrize("text", ["t:", "t:x", "t:0,", "t:-1"])
def test_partitions_are_numbers(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not TOPIC or"):
        _partitions(text)


def offsets(folder: Path, text: str) -> Path:
    file = folder / "offsets.csv"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize("text", ["t,0,5\nt,1,6\n", '"g","t",0,5\nother,t,0,99\n"g","t",1,6\n', "t,0,5\n\nt,1,6"])
def test_files_are_read_as_kafkas_tool_writes_them(tmp_path: Path, text: str) -> None:
    assert _read(offsets(tmp_path, text), "g") == {TopicPartition("t", 0): 5, TopicPartition("t", 1): 6}


@pytest.mark.parametrize("line", ["t,0", "t,zero,5", "t,0,-5", "t", "a,b,c,0,5", "topic,partition,offset"])
def test_a_line_that_is_none_is_named(tmp_path: Path, line: str) -> None:
    with pytest.raises(typer.BadParameter, match="line 2 is not topic,partition,offset"):
        _read(offsets(tmp_path, f"t,0,5\n{line}\n"), "g")


def test_a_file_without_the_group_is_an_error(tmp_path: Path) -> None:
    for text in ("", "other,t,0,5\n"):
        with pytest.raises(typer.BadParameter, match="has no offsets for the group 'g'"):
            _read(offsets(tmp_path, text), "g")
