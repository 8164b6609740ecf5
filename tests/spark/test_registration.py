"""How Spark comes to know the source, and what is said where it cannot."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import kclient
from kclient.spark import register, requirements
from kclient.spark.errors import MissingRequirementError
from tests.spark.conftest import PROJECT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def python(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_module_that_spark_looks_for_never_raises() -> None:
    hide = "import sys; sys.modules['pyspark'] = sys.modules['pyspark.sql'] = None;"
    assert python(hide + "import pyspark_kclient as module; print(hasattr(module, 'DefaultSource'))") == "False"
    broken = "import sys; sys.modules['kclient.spark'] = None;"
    assert python(broken + "import pyspark_kclient as module; print(hasattr(module, 'DefaultSource'))") == "False"


@pytest.mark.spark
def test_the_module_that_spark_looks_for_is_light() -> None:
    loaded = python("import sys, pyspark_kclient; print(pyspark_kclient.DefaultSource.name(), *sorted(sys.modules))")
    name, *modules = loaded.split()
    assert name == "kclient"
    ours = {module for module in modules if module.startswith("kclient")}
    assert ours == {"kclient", "kclient._version", "kclient.spark", "kclient.spark.source"}
    assert "msgspec" not in modules


@pytest.mark.spark
def test_it_is_registered_by_hand_under_its_name(spark: SparkSession, bootstrap_servers: str) -> None:
    register(spark)
    reading = spark.read.format("KClient").option("kafka.bootstrap.servers", bootstrap_servers)
    assert "value" in reading.option("subscribePattern", "no-topic-is-called-so").load().columns


@pytest.mark.parametrize(
    ("version", "arrow", "said"),
    [
        (None, True, "needs PySpark 4.2 or newer: pip install 'kclient[spark]'"),
        ("3.5.1", True, "needs PySpark 4.2 or newer, and 3.5.1 is installed here"),
        ("4.1.0.dev2", True, "needs PySpark 4.2 or newer, and 4.1.0.dev2 is installed here"),
        ("4.2.0", False, "needs pyarrow, here and on every executor: pip install 'kclient[spark]'"),
    ],
)
def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, version: str | None, arrow: bool, said: str) -> None:
    real: Any = importlib.util.find_spec
    monkeypatch.setattr(requirements, "spark_version", lambda: version)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: real(name) if arrow or name != "pyarrow" else None)
    with pytest.raises(MissingRequirementError) as caught:
        register(None)
    assert said in str(caught.value)


@pytest.mark.parametrize("version", ["4.2.0", "4.3.0", "5.0.0.dev1", "10.0"])
def test_later_versions_will_do(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(requirements, "spark_version", lambda: version)
    requirements.check_requirements()


@pytest.fixture
def interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Makes an interpreter on the PATH, `worker-python`, whose command line is this; returns its path."""

    def make(command: str) -> str:
        path = tmp_path / "worker-python"
        path.write_text(f"#!/bin/sh\n{command}\n")
        path.chmod(0o755)
        return str(path)

    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return make


def session(master: str = "local[2]", python: str = "worker-python", shipped: bool = False, path: str = "") -> Any:
    """What is asked of a session."""
    files = ["kclient.zip"] if shipped else []
    context = SimpleNamespace(
        master=master, pythonExec=python, environment={"PYTHONPATH": path}, listFiles=files, listArchives=[]
    )
    return SimpleNamespace(sparkContext=context)


BARE = f'exec {sys.executable} -S "$@"'
"""Without what is installed."""


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2, 3]"])
def test_workers_without_kclient_are_reported_by_their_interpreter(
    interpreter: Callable[[str], str], master: str
) -> None:
    path = interpreter(BARE)
    with pytest.raises(MissingRequirementError) as caught:
        requirements.check_workers(session(master))
    assert f"Spark's workers run {path}, which has no kclient" in str(caught.value)
    assert f"os.environ['PYSPARK_PYTHON'] = {sys.executable!r}" in str(caught.value)


@pytest.mark.parametrize(
    "asked",
    [
        session(path=str(Path(kclient.__file__).parents[1])),
        session(shipped=True),
        session("spark://somewhere:7077"),
        session("local-cluster[2,1,1024]"),
        session(python=sys.executable),
        session(python="no-such-python"),
        SimpleNamespace(),
    ],
    ids=["by its path", "shipped", "cluster", "cluster of processes", "this one", "none", "Connect"],
)
def test_workers_that_may_have_kclient_are_left_to_find_it(interpreter: Callable[[str], str], asked: Any) -> None:
    interpreter(BARE)
    requirements.check_workers(asked)


def test_an_interpreter_that_cannot_be_checked_is_accepted(interpreter: Callable[[str], str]) -> None:
    interpreter("exit 1")
    requirements.check_workers(session())
