"""`kclient --profile`: clusters by name, in a file that only its user may read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import Cli


@pytest.fixture
def profiles(cli: Cli, bootstrap_servers: str, tmp_path: Path) -> Path:
    """A file with the profiles `here`, which is the cluster, and `gone`, which no broker is at."""
    file = tmp_path / "kclient" / "config.toml"
    file.parent.mkdir()
    file.write_text(
        f'[here]\nbootstrap_servers = "{bootstrap_servers}"\nrequest.timeout.ms = 5000\n\n'
        '[gone]\nbootstrap.servers = "localhost:1"\n'
    )
    file.chmod(0o600)
    cli.environment["XDG_CONFIG_HOME"] = str(tmp_path)
    cli.environment["KCLIENT_BOOTSTRAP_SERVERS"] = "localhost:1"
    return file


@pytest.mark.parametrize(
    "arguments",
    [
        ["--profile", "here", "topics", "list"],
        ["topics", "list", "--profile", "here"],
        ["--profile", "gone", "topics", "list", "--profile", "here"],
    ],
    ids=["program", "command", "command over program"],
)
def test_a_profile_names_the_cluster(cli: Cli, profiles: Path, arguments: list[str]) -> None:
    cli(*arguments)


def test_the_environment_chooses_a_profile_unless_the_command_line_does(
    cli: Cli, bootstrap_servers: str, profiles: Path, tmp_path: Path
) -> None:
    cli.environment["KCLIENT_PROFILE"] = "here"
    cli("topics", "list")
    cli.environment["KCLIENT_PROFILE"] = "gone"
    cli("topics", "list", "--profile", "here")
    cli("topics", "list", "-b", bootstrap_servers)
    properties = tmp_path / "client.properties"
    properties.write_text(f"bootstrap.servers={bootstrap_servers}\n")
    cli("topics", "list", "--properties", str(properties))


@pytest.mark.parametrize(
    ("content", "mode", "complaint"),
    [
        ("[here]\n", 0o644, "other users may access {} (mode 0644); run: chmod 600 {}"),
        ("[here]\n", 0o600, "there is no profile 'prod' in {}; its profiles are here"),
        ("", 0o600, "there is no profile 'prod' in {}; it has none"),
        ("a = 1\n", 0o600, "{}: 'a' is not in a profile; put it below a line such as [production]"),
        ("[here\n", 0o600, "{} is not TOML: "),
        ("[prod]\nbootstrap = 1\n", 0o600, "there is no option 'bootstrap'"),
        (None, 0o600, "the file of profiles cannot be read: "),
    ],
    ids=["mode", "another profile", "empty", "no table", "no TOML", "unknown option", "no file"],
)
def test_a_file_that_cannot_be_used_says_why(
    cli: Cli, profiles: Path, content: str | None, mode: int, complaint: str
) -> None:
    if content is None:
        profiles.unlink()
    else:
        profiles.write_text(content)
        profiles.chmod(mode)
    done = cli.run("topics", "list", "--profile", "prod")
    assert done.returncode == 2
    assert complaint.replace("{}", str(profiles)) in done.stderr.decode()


def test_a_profile_and_a_file_exclude_each_other(cli: Cli, profiles: Path, tmp_path: Path) -> None:
    properties = tmp_path / "client.properties"
    properties.touch()
    done = cli.run("--profile", "here", "topics", "list", "--properties", str(properties))
    assert done.returncode == 2
    assert "exclude each other" in done.stderr.decode()
