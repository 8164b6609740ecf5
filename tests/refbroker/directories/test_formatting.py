"""`refbroker format`, `info` and `random-uuid`."""

from __future__ import annotations

from pathlib import Path

import pytest

from kclient.errors import ConfigError
from kclient.protocol.messages.records.metadata_log import FeatureLevelRecord
from refbroker.__main__ import main
from refbroker.controller.bootstrap import BOOTSTRAP_CHECKPOINT
from refbroker.directories.formatting import plan_levels, release_level
from refbroker.log import Files
from refbroker.log.checkpoints import decode_uuid, read_meta_properties
from refbroker.metadata.snapshot_file import read_snapshot

CLUSTER = "Xx2Fmd1lTXaHMxaBp4Yi8g"


def bootstrap(directory: Path) -> dict[str, int]:
    records = read_snapshot(Files(), directory / BOOTSTRAP_CHECKPOINT).records
    return {record.name: record.feature_level for record in records if isinstance(record, FeatureLevelRecord)}


def test_directories_get_an_id_each_and_the_records_a_cluster_begins_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    assert main(["format", "--data-dir", f"{two},{one}", "-t", CLUSTER, "--node-id", "7"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[1:] == [
        f"Formatting data directory {one} with metadata.version 4.3-IV0.",
        f"Formatting metadata directory {two} with metadata.version 4.3-IV0.",
    ]
    found = [read_meta_properties(Files(), directory) for directory in (one, two)]
    assert [(each.cluster_id, each.node_id) for each in found if each] == [(CLUSTER, 7)] * 2
    assert len({each.directory_id for each in found if each}) == 2
    assert bootstrap(one) == bootstrap(two)
    assert bootstrap(one)["metadata.version"] == 30


def test_what_is_formatted_is_left_alone_only_on_demand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    assert main(["format", "--data-dir", str(one)]) == 0
    before = read_meta_properties(Files(), one)
    assert before is not None
    assert main(["format", "--data-dir", f"{one},{two}"]) == 2
    assert capsys.readouterr().err.startswith(f"refbroker: Log directory {one} is already formatted. Use --ignore-form")
    assert not two.exists()
    assert main(["format", "--data-dir", f"{one},{two}", "-g"]) == 0
    after = read_meta_properties(Files(), two)
    assert after is not None
    assert (read_meta_properties(Files(), one), after.cluster_id) == (before, before.cluster_id)
    capsys.readouterr()
    assert main(["format", "--data-dir", f"{one},{two}", "-g"]) == 0
    assert capsys.readouterr().out == "All of the log directories are already formatted.\n"
    assert main(["format", "--data-dir", str(one), "-g", "-t", CLUSTER]) == 2
    assert "belongs to the cluster" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("release", "level"),
    [("3.3", 7), ("3.7", 19), ("3.7-IV2", 17), ("4.0.1", 25), ("4.3", 30), ("4.3-IV0", 30)],
)
def test_a_release_stands_for_its_last_metadata_version(release: str, level: int) -> None:
    assert release_level(release) == level


@pytest.mark.parametrize("release", ["2.8", "4.4", "4", "four", "4.3-IV9"])
def test_an_invalid_release_is_an_error_that_names_the_existing_ones(release: str) -> None:
    with pytest.raises(ConfigError, match=r"Unknown metadata\.version .*3\.3-IV3, .*4\.3-IV0"):
        release_level(release)


@pytest.mark.parametrize(
    ("release", "levels"),
    [
        ("3.9", {}),
        ("4.0", {"group.version": 1, "transaction.version": 2}),
        ("4.1", {"eligible.leader.replicas.version": 1, "group.version": 1, "transaction.version": 2}),
    ],
)
def test_a_cluster_of_an_older_release_begins_with_its_features(release: str, levels: dict[str, int]) -> None:
    planned = plan_levels({}, release, dynamic_quorum=False)
    assert {name: level for name, level in planned.items() if level and name != "metadata.version"} == levels


@pytest.mark.parametrize(
    ("given", "release", "dynamic", "says"),
    [
        ({"metadata.version": 30}, "4.3", False, "to avoid ambiguity"),
        ({"metadata.version": 31}, None, False, "No MetadataVersion with feature level 31"),
        ({"what.version": 1}, None, False, "Unsupported feature: what.version"),
        ({"group.version": 2}, None, False, "No feature:group.version with feature level 2"),
        ({"eligible.leader.replicas.version": 1}, "3.8", False, r"depends on metadata.version level 23"),
        ({"kraft.version": 1}, None, False, "Cannot set kraft.version to 1 unless"),
        ({"kraft.version": 0}, None, True, "Cannot set kraft.version to 0 if"),
    ],
)
def test_levels_that_cannot_be(given: dict[str, int], release: str | None, dynamic: bool, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        plan_levels(given, release, dynamic_quorum=dynamic)


def test_a_controller_must_be_notified_where_its_voters_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "server.properties"
    settings = f"process.roles=broker,controller\nnode.id=1\nlog.dirs={tmp_path / 'data'}\n"
    config.write_text(settings)
    for options, more, says in (
        ([], "", "you must specify one of the following"),
        (["-s"], "controller.quorum.voters=1@localhost:9093\n", "please remove controller.quorum.voters"),
        (["-s"], "", "CONTROLLER among the listeners"),
        (["-f", "kraft.version"], "controller.quorum.voters=1@localhost:9093\n", "--feature takes NAME=LEVEL"),
    ):
        config.write_text(settings + more)
        assert main(["format", "-c", str(config), *options]) == 2
        assert says in capsys.readouterr().err
    assert main(["format"]) == 2
    assert not (tmp_path / "data").exists()


def test_info_shows_the_owner_of_each_directory_and_its_problems(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    main(["format", "--data-dir", str(one), "-t", CLUSTER])
    main(["format", "--data-dir", str(two)])
    three.mkdir()
    (tmp_path / "file").write_text("")
    capsys.readouterr()
    assert main(["info", "--data-dir", str(one)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[:3] == ["Found log directory:", f"  {one}", ""]
    assert said[3].startswith(f"Found metadata: {{cluster.id={CLUSTER}, directory.id=")
    everything = ",".join(str(tmp_path / name) for name in ("one", "two", "three", "none", "file"))
    assert main(["info", "--data-dir", everything]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[said.index("Found problems:") :] == [
        "Found problems:",
        f"  {tmp_path / 'file'} is not a directory",
        f"  {tmp_path / 'none'} does not exist",
        f"  {three} is not formatted.",
        "  Mismatched cluster IDs between storage directories.",
        "",
    ]


def test_a_random_id_can_stand_on_a_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["random-uuid"]) == 0
    text = capsys.readouterr().out.strip()
    assert decode_uuid(text).version == 4
    assert not text.startswith("-")
