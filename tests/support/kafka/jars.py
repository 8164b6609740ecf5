"""Apache Kafka's jars: fetched once through Maven into a cache folder, and run with java.

The versions are those of pom.xml beside this file. ``KAFKA_LIB`` names a folder that already has the jars.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.support.patience import DOWNLOAD, PROCESS

POM = Path(__file__).with_name("pom.xml")
#: Short-lived tools spend their time starting up: no second compiler, the shared class archive, a small heap.
TOOL_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx256m")


class ToolchainMissing(Exception):
    """Java or Maven is not on this machine, or the jars could not be fetched; the text says which."""


def kafka_version() -> str:
    """The version of Apache Kafka that pom.xml asks for."""
    found = re.search(r"<kafka\.version>([^<]+)<", POM.read_text())
    if found is None:
        raise ValueError(f"{POM} names no kafka.version")
    return found.group(1)


def library_folder() -> Path:
    """The folder that holds, or will hold, the jars."""
    if given := os.environ.get("KAFKA_LIB"):
        return Path(given)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / f"kafka-{kafka_version()}" / "lib"


@functools.cache
def jars() -> Path:
    """The folder with the jars, fetched now if they are not there yet.

    Raises:
        ToolchainMissing: java or mvn is missing, or Maven failed.
    """
    folder = library_folder()
    return folder if os.environ.get("KAFKA_LIB") and shutil.which("java") else fetched(POM, folder)


def fetched(pom: Path, folder: Path) -> Path:
    """Return a folder with the jars that a pom.xml names, fetched now if they are not there yet.

    Raises:
        ToolchainMissing: java or mvn is missing, or Maven failed.
    """
    if shutil.which("java") is None:
        raise ToolchainMissing("java is not on this machine")
    complete = folder / ".done"
    if complete.exists():
        return folder
    if shutil.which("mvn") is None:
        raise ToolchainMissing(f"mvn is not on this machine, and {folder} has no jars")
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            _fetch(pom, folder)
            complete.touch()
    return folder


def _fetch(pom: Path, folder: Path) -> None:
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DOWNLOAD, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ToolchainMissing(f"mvn did not fetch the jars within {DOWNLOAD} s") from error
    if done.returncode:
        raise ToolchainMissing(f"mvn could not fetch the jars: {(done.stdout + done.stderr).strip()[-400:]}")


def classpath() -> str:
    """The class path of everything in Kafka."""
    return f"{jars()}/*"


@functools.cache
def compiled(program: Path) -> Path:
    """The folder with the classes of a program; only for one that must be in a package of Kafka's.

    Raises:
        AssertionError: it could not be compiled.
    """
    folder = (
        library_folder().parent / "classes" / f"{program.stem}-{hashlib.sha256(program.read_bytes()).hexdigest()[:16]}"
    )
    if not folder.exists():
        # Renamed when it is complete, so that a test that runs at the same time sees all of it or nothing.
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            classes = Path(made) / "classes"
            command = ["javac", "-proc:none", "-cp", classpath(), "-d", str(classes), str(program)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=PROCESS, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            with contextlib.suppress(OSError):
                classes.rename(folder)
    return folder


def run_tool(
    main_class: str,
    *arguments: str,
    input: str | bytes | None = None,
    classes: Path | None = None,
    timeout: float = PROCESS,
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's Java programs to its end; standard error is merged into ``stdout``.

    Args:
        main_class: the class with ``main``, as in ``org.apache.kafka.tools.TopicCommand``.
        arguments: its command line.
        input: what it reads from standard input; nothing by default.
        classes: a folder with further classes.
        timeout: seconds until it is ended; the test fails with what it had said by then.
    """
    data = input.encode() if isinstance(input, str) else input or b""
    path = classpath() if classes is None else f"{classes}:{classpath()}"
    command = ["java", *TOOL_FLAGS, "-cp", path, main_class, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            output, _ = process.communicate(data, timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
            text = output.decode(errors="replace")
            raise AssertionError(f"{main_class} did not end within {timeout} s; it said:\n{text}") from None
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, output.decode(errors="replace"), "")


@functools.cache
def unavailable_reason() -> str | None:
    """Why Apache Kafka cannot run here, or None when it can; fetches the jars when they are missing."""
    try:
        jars()
    except ToolchainMissing as error:
        return str(error)
    return None
