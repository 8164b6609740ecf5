"""Which options `kclient consume` gives its consumer."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from kclient.cli.connection import BOOTSTRAP_VARIABLE
from kclient.cli.consume import _options
from kclient.config import ConsumerConfig

APPLICATION = """
bootstrap.servers=a:1
group.id=billing
group.instance.id=billing-7
enable.auto.commit=true
auto.offset.reset=latest
isolation.level=read_committed
"""


@pytest.fixture
def application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of an application that belongs to a group."""
    monkeypatch.delenv(BOOTSTRAP_VARIABLE, raising=False)
    file = tmp_path / "app.properties"
    file.write_text(APPLICATION, encoding="utf-8")
    return file


def config(application: Path | None, group: str | None, start: str | None = None, *settings: str) -> ConsumerConfig:
    return ConsumerConfig.from_properties(_options(None, application, settings, group, start))


def test_the_file_of_an_application_does_not_put_the_command_into_its_group(application: Path) -> None:
    made = config(application, None)
    assert (made.group_id, made.group_instance_id) == (None, None)
    assert (made.bootstrap_servers, made.isolation_level) == ("a:1", "read_committed")


def test_a_group_is_joined_as_a_new_member_that_commits_printed_records(application: Path) -> None:
    made = config(application, "audit")
    assert (made.group_id, made.group_instance_id, made.enable_auto_commit) == ("audit", None, False)


@pytest.mark.parametrize("setting", ["group.id=g", "group_id=g", "group.instance.id=i", "enable.auto.commit=true"])
def test_a_setting_that_would_join_a_group_names_the_option_that_does(setting: str) -> None:
    with pytest.raises(
        typer.BadParameter, match="use --group NAME to read as a member of a group and commit"
    ) as raised:
        config(None, None, None, setting)
    assert raised.value.param_hint == "--set"


@pytest.mark.parametrize("setting", ["group.id=other", "enable.auto.commit=false"])
def test_a_setting_that_contradicts_the_group_is_an_error(setting: str) -> None:
    with pytest.raises(typer.BadParameter, match="--group NAME"):
        config(None, "g", None, setting)


def test_a_member_may_be_given_an_instance_id() -> None:
    assert config(None, "g", None, "group.instance.id=host-7").group_instance_id == "host-7"


@pytest.mark.parametrize(
    ("start", "settings", "reset"),
    [
        (None, (), "earliest"),
        (None, ("auto.offset.reset=latest",), "latest"),
        ("beginning", ("auto.offset.reset=latest",), "earliest"),
        ("end", (), "latest"),
    ],
)
def test_a_member_begins_where_the_command_says_if_nothing_is_committed(
    start: str | None, settings: tuple[str, ...], reset: str
) -> None:
    assert config(None, "g", start, *settings).auto_offset_reset == reset


@pytest.mark.parametrize("start", ["5", "-2", "@0"])
def test_a_member_cannot_begin_at_an_offset_or_a_time(start: str) -> None:
    with pytest.raises(typer.BadParameter, match="`kclient groups reset` changes") as raised:
        config(None, "g", start)
    assert raised.value.param_hint == "--from"


@pytest.mark.parametrize("group", [None, "g"])
def test_topics_are_created_only_with_the_option(group: str | None) -> None:
    assert config(None, group).allow_auto_create_topics is False
    assert config(None, group, None, "allow.auto.create.topics=true").allow_auto_create_topics is True
