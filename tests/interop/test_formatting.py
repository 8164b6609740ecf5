"""Data directories by `refbroker format` and by Apache Kafka's kafka-storage are alike, and each starts on both.

The settings are those that Apache Kafka 4.3.1 comes with (kafka/server.properties); only ports and log.dirs differ.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from kclient import Consumer, Producer
from kclient._properties import ENCODING, parse_properties
from refbroker.__main__ import main
from tests.support.broker_process import BrokerProcess
from tests.support.kafka.cluster import PLAINTEXT, KafkaCluster, free_ports
from tests.support.kafka.jars import run_tool
from tests.support.patience import ANSWER, PROCESS

STORAGE_TOOL = "kafka.tools.StorageTool"
CLUSTER = "Xx2Fmd1lTXaHMxaBp4Yi8g"
SERVER_PROPERTIES = Path(__file__).parents[1] / "support" / "kafka" / "server.properties"


pytestmark = pytest.mark.usefixtures("needs_kafka")


class Place:
    """A server.properties with ports that are free, and its data directory.

    Args:
        folder: for both.
        voters: whether the voters are in the settings, not in the metadata log.
    """

    def __init__(self, folder: Path, *, voters: bool) -> None:
        folder.mkdir()
        self.data = folder / "data"
        self.properties = folder / "server.properties"
        self.port, self.controller_port = free_ports(2)
        text = SERVER_PROPERTIES.read_text().replace("9092", str(self.port)).replace("9093", str(self.controller_port))
        text = text.replace("/tmp/kraft-combined-logs", str(self.data)).replace("://:", "://127.0.0.1:")
        text = text.replace("localhost", "127.0.0.1")
        if voters:
            text = text.replace("controller.quorum.bootstrap.servers=", "controller.quorum.voters=1@")
        self.properties.write_text(text)
        self.bootstrap_servers = f"127.0.0.1:{self.port}"
        self.options = ("-t", CLUSTER, "-c", str(self.properties), *(() if voters else ("--standalone",)))

    def format(self, by: str) -> list[str]:
        """Format the data directory; gives what was said, with what differs between places taken out."""
        if by == "kafka":
            done = run_tool(STORAGE_TOOL, "format", *self.options)
            status, said = done.returncode, done.stdout
        else:
            status, said = ours("format", *self.options)
        assert status == 0, said
        return said.replace(str(self.data), "DATA").splitlines()


def ours(*arguments: str) -> tuple[int, str]:
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        status = main(arguments)
    return status, output.getvalue()


def dumped(place: Place) -> list[str]:
    """What is in the snapshots of a data directory, without what no two formattings have in common."""
    files = sorted(place.data.rglob("*.checkpoint"))
    status, said = ours("dump-log", "--cluster-metadata-decoder", *map(str, files))
    assert status == 0
    own = rf'{place.data}|{place.controller_port}|(?<=crc: )\d+|(?<=CreateTime: )\d+|(?<=Timestamp":)[1-9]\d+'
    return re.sub(own + r'|(?<=voterDirectoryId":")[^"]+', "-", said).splitlines()


@pytest.mark.parametrize("voters", [True, False], ids=["voters in the settings", "standalone"])
def test_both_write_the_same(tmp_path: Path, voters: bool) -> None:
    theirs, own = (Place(tmp_path / name, voters=voters) for name in ("theirs", "ours"))
    assert own.format("refbroker") == theirs.format("kafka")
    names = [sorted(str(path.relative_to(place.data)) for path in place.data.rglob("*")) for place in (theirs, own)]
    assert names[0] == names[1]
    properties = []
    for place in (theirs, own):
        found = parse_properties((place.data / "meta.properties").read_bytes().decode(ENCODING))
        assert re.fullmatch(r"[\w-]{22}", found.pop("directory.id"))
        properties.append(found)
    assert properties == [{"cluster.id": CLUSTER, "node.id": "1", "version": "1"}] * 2
    assert dumped(own) == dumped(theirs)


def test_both_know_what_the_other_formatted(tmp_path: Path) -> None:
    theirs, own = (Place(tmp_path / name, voters=True) for name in ("theirs", "ours"))
    own.format("refbroker")
    theirs.format("kafka")
    for place in (theirs, own):
        done = run_tool(STORAGE_TOOL, "info", "-c", str(place.properties))
        assert ours("info", "-c", str(place.properties)) == (done.returncode, done.stdout) == (0, done.stdout)
        again = run_tool(STORAGE_TOOL, "format", *place.options)
        status, said = ours("format", *place.options)
        assert (again.returncode, status) == (1, 2)
        assert again.stdout.strip() in said
        assert ours("format", "-g", *place.options) == (
            0,
            run_tool(STORAGE_TOOL, "format", "-g", *place.options).stdout,
        )
    absent = Place(tmp_path / "absent", voters=True)
    done = run_tool(STORAGE_TOOL, "info", "-c", str(absent.properties))
    assert ours("info", "-c", str(absent.properties)) == (done.returncode, done.stdout)
    assert done.returncode == 1


@pytest.mark.parametrize("release", ["3.3", "3.7", "3.9", "4.0", "4.1-IV0", "4.3"])
def test_an_older_release_has_the_same_features(tmp_path: Path, release: str) -> None:
    theirs, own = (Place(tmp_path / name, voters=True) for name in ("theirs", "ours"))
    for place in (theirs, own):
        place.options = (*place.options, "-r", release)
    assert own.format("refbroker") == theirs.format("kafka")
    assert dumped(own) == dumped(theirs)


class FormattedKafka(KafkaCluster):
    """Apache Kafka on a data directory that is formatted already."""

    def __init__(self, place: Place, directory: Path) -> None:
        super().__init__(1, directory=directory)
        self._ports[PLAINTEXT] = {1: place.port}
        self._place = place

    def _format(self, node: int) -> None:
        folder = self.directory / f"node{node}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "server.properties").write_text(self._place.properties.read_text())


class FormattedRefBroker(BrokerProcess):
    """refbroker on a data directory that is formatted already, and with the settings that Apache Kafka has."""

    def __init__(self, place: Place) -> None:
        super().__init__(place.data)
        self._command = [sys.executable, "-m", "refbroker", "run", "--config", str(place.properties)]


@contextmanager
def running(by: str, place: Place, folder: Path) -> Iterator[None]:
    if by == "kafka":
        with FormattedKafka(place, folder):
            yield
    else:
        with FormattedRefBroker(place) as process:
            assert process.bootstrap_servers == place.bootstrap_servers
            yield


def send(place: Place, value: bytes) -> None:
    with Producer(bootstrap_servers=place.bootstrap_servers) as producer:
        producer.send("orders", value).result(timeout=ANSWER)


def received(place: Place, count: int) -> list[bytes]:
    with Consumer("orders", bootstrap_servers=place.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        found: list[bytes] = []
        while len(found) < count:
            records = list(consumer.poll(timeout=ANSWER))
            assert records, found
            found += [record.value for record in records]
        return found


@pytest.mark.parametrize("voters", [True, False], ids=["voters in the settings", "standalone"])
@pytest.mark.parametrize(
    ("by", "first", "second"), [("refbroker", "kafka", "refbroker"), ("kafka", "refbroker", "kafka")]
)
def test_what_one_formatted_starts_on_the_other_and_continues_with_the_first(
    tmp_path: Path, by: str, first: str, second: str, voters: bool
) -> None:
    place = Place(tmp_path / "place", voters=voters)
    place.format(by)
    with running(first, place, tmp_path / "first"):
        send(place, first.encode())
        assert received(place, 1) == [first.encode()]
    with running(second, place, tmp_path / "second"):
        send(place, second.encode())
        assert received(place, 2) == [first.encode(), second.encode()]
    with running(first, place, tmp_path / "third"):
        assert received(place, 2) == [first.encode(), second.encode()]


def test_the_settings_apache_kafka_comes_with_start_refbroker_without_an_error(tmp_path: Path) -> None:
    place = Place(tmp_path / "place", voters=False)
    with FormattedRefBroker(place) as process:
        send(place, b"a")
        assert received(place, 1) == [b"a"]
        assert process.stop() == 0
        said = process.output_file.read_text()
    assert " ERROR " not in said
    assert len(said.splitlines()) <= 1, said
    mistyped = place.properties.with_name("mistyped.properties")
    mistyped.write_text(place.properties.read_text().replace("num.partitions", "num.partition"))
    done = subprocess.run(
        [sys.executable, "-m", "refbroker", "run", "--config", str(mistyped)],
        capture_output=True, text=True, timeout=PROCESS, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "did you mean num.partitions?" in done.stderr
