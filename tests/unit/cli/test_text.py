"""What the command line makes of its arguments, and of what it prints."""

from __future__ import annotations

import json

import pytest
import typer

from kclient.admin.configs import ConfigEntry, ConfigSource, ConfigType
from kclient.cli import consume, output
from kclient.cli.text import unescaped
from kclient.types import ConsumerRecord


@pytest.mark.parametrize(
    ("written", "meant"),
    [(r"\t", "\t"), (r"a\n", "a\n"), (r"\x00", "\0"), ("→", "→"), ("ä: ", "ä: "), (r"é\té", "é\té"), (r"\\n", r"\n")],
)
def test_escapes_are_read_and_other_letters_stay_as_they_are(written: str, meant: str) -> None:
    assert unescaped(written, "--format") == meant


@pytest.mark.parametrize("written", ["\\", r"\x1"])
def test_an_escape_that_is_none_is_an_error_of_the_command_line(written: str) -> None:
    with pytest.raises(typer.BadParameter, match="escape"):
        unescaped(written, "--format")


def test_a_template_prints_the_letters_it_has() -> None:
    show = consume._printer(r"Schlüssel → {key}\n")
    assert show(ConsumerRecord("t", key=b"k")) == "Schlüssel → k\n".encode()


def test_json_names_what_has_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    entry = ConfigEntry("retention.ms", "1", ConfigSource.DYNAMIC_TOPIC_CONFIG, type=ConfigType.LONG)
    output.as_json({"retention.ms": entry})
    printed = json.loads(capsys.readouterr().out)["retention.ms"]
    assert (printed["source"], printed["type"], printed["synonyms"]) == ("dynamic_topic_config", "long", [])


def test_nothing_stands_where_there_is_no_value(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(["setting", "value"], [("a", None), ("b", 0)])
    assert capsys.readouterr().out == "a\t\nb\t0\n"
