"""What the command line makes of its arguments, and of what it prints."""

from __future__ import annotations

import json

import pytest
import typer

from kclient.admin import GroupState, GroupType
from kclient.admin.configs import ConfigEntry, ConfigSource, ConfigType
from kclient.cli import output
from kclient.cli.formats import template_printer
from kclient.cli.text import milliseconds, moment, named, partitions, seconds, unescaped
from kclient.types import ConsumerRecord, TopicPartition


@pytest.mark.parametrize(
    ("written", "meant"),
    [(r"\t", "\t"), (r"a\n", "a\n"), (r"\x00", "\0"), ("→", "→"), ("ä: ", "ä: "), (r"é\té", "é\té"), (r"\\n", r"\n")],
)
def test_escapes_are_read_and_other_letters_stay_as_they_are(written: str, meant: str) -> None:
    assert unescaped(written, "--format") == meant


@pytest.mark.parametrize("written", ["\\", r"\x1"])
def test_an_invalid_escape_is_an_error_of_the_command_line(written: str) -> None:
    with pytest.raises(typer.BadParameter, match="escape"):
        unescaped(written, "--format")


def test_a_template_prints_the_letters_it_has() -> None:
    show = template_printer(r"Schlüssel → {key}\n")
    assert show(ConsumerRecord("t", key=b"k")) == "Schlüssel → k\n".encode()


def test_json_names_what_has_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    entry = ConfigEntry("retention.ms", "1", ConfigSource.DYNAMIC_TOPIC_CONFIG, type=ConfigType.LONG)
    output.as_json({"retention.ms": entry})
    printed = json.loads(capsys.readouterr().out)["retention.ms"]
    assert (printed["source"], printed["type"], printed["synonyms"]) == ("dynamic_topic_config", "long", [])


def test_nothing_stands_where_there_is_no_value(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(["setting", "value"], [("a", None), ("b", 0)])
    assert capsys.readouterr().out == "a\t\nb\t0\n"


@pytest.mark.parametrize("text", ["PreparingRebalance", "preparing_rebalance", "preparing-rebalance"])
def test_states_are_named_as_anyone_writes_them(text: str) -> None:
    assert named(GroupState, text, "--state") is GroupState.PREPARING_REBALANCE
    with pytest.raises(typer.BadParameter, match="only Classic, Consumer, Share, Streams"):
        named(GroupType, text, "--type")


def test_a_topic_is_all_its_partitions_or_some() -> None:
    assert partitions("t") == ["t"]
    assert partitions("t:0,12") == [TopicPartition("t", 0), TopicPartition("t", 12)]


@pytest.mark.parametrize("text", ["t:", "t:x", "t:0,", "t:-1"])
def test_partitions_are_numbers(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not TOPIC or"):
        partitions(text)


def test_an_invalid_duration_names_its_option() -> None:
    assert seconds("PT1M30S", "--longer-than") == 90
    with pytest.raises(typer.BadParameter, match="'60' is not a duration") as raised:
        seconds("60", "--longer-than")
    assert raised.value.param_hint == "--longer-than"


def test_a_point_in_time_is_written_as_it_is_read() -> None:
    assert moment(1_600_000_000_007) == "2020-09-13T12:26:40.007+00:00"
    assert milliseconds(moment(1_600_000_000_007), "--to-time") == 1_600_000_000_007
