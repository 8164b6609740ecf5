"""Which cluster a command talks to, and where its options come from."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from kclient.cli.commands import app
from kclient.cli.connection import BOOTSTRAP_VARIABLE, options
from kclient.config import AdminConfig

SERVERS = "bootstrap.servers"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "client.properties"
    made.write_text("bootstrap.servers: file:9092\nclient.id=of-the-file\nretry.backoff.ms=7\n", encoding="utf-8")
    return made


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BOOTSTRAP_VARIABLE, "environment:9092")


def test_an_option_beats_the_file_and_the_file_beats_the_environment(file: Path) -> None:
    setting = f"{SERVERS}=setting:9092"
    assert options(AdminConfig, None, None, None) == {SERVERS: "environment:9092"}
    assert options(AdminConfig, None, file, None)[SERVERS] == "file:9092"
    assert options(AdminConfig, None, None, [setting])[SERVERS] == "setting:9092"
    assert options(AdminConfig, None, file, [setting])[SERVERS] == "setting:9092"
    assert options(AdminConfig, "option:9092", file, None)[SERVERS] == "option:9092"


def test_a_file_without_a_cluster_leaves_it_to_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("client.id=of-the-file\n", encoding="utf-8")
    assert options(AdminConfig, None, file, None) == {"client.id": "of-the-file", SERVERS: "environment:9092"}


@pytest.mark.parametrize("value", [None, ""])
def test_an_environment_that_names_no_cluster_leaves_the_default(
    monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    if value is None:
        monkeypatch.delenv(BOOTSTRAP_VARIABLE)
    else:
        monkeypatch.setenv(BOOTSTRAP_VARIABLE, value)
    assert options(AdminConfig, None, None, None) == {}


@pytest.mark.parametrize("name", ["bootstrap.servers", "bootstrap_servers"])
def test_two_clusters_on_the_command_line_are_an_error(name: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"--bootstrap-servers names a:1, and --set names b:2"):
        options(AdminConfig, "a:1", None, [f"{name}=b:2"])


def test_one_cluster_may_be_named_twice() -> None:
    assert options(AdminConfig, "a:1,b:2", None, [f"{SERVERS}=b:2, a:1"]) == {SERVERS: "a:1,b:2"}


def test_settings_beat_the_file(file: Path) -> None:
    found = options(AdminConfig, None, file, ["client.id=of the=setting"])
    assert (found["client.id"], found["retry.backoff.ms"]) == ("of the=setting", "7")


@pytest.mark.parametrize("arguments", [["-b", "a:1", "topics", "list"], ["topics", "list", "-b", "a:1"]])
def test_a_cluster_before_or_after_the_command_must_agree_with_the_settings(arguments: list[str]) -> None:
    done = CliRunner().invoke(app, [*arguments, "--set", f"{SERVERS}=b:2"])
    assert (done.exit_code, "--set names b:2" in done.output) == (2, True)


def test_help_names_the_environment() -> None:
    assert BOOTSTRAP_VARIABLE in CliRunner().invoke(app, ["topics", "list", "--help"], env={"COLUMNS": "200"}).output
