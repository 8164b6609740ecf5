"""How Spark comes to know the source, and what is said where it cannot."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

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
    assert ours == {"kclient", "kclient.spark", "kclient.spark.source"}
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
    real: Any = requirements.importlib.util.find_spec
    monkeypatch.setattr(requirements, "spark_version", lambda: version)
    monkeypatch.setattr(
        requirements.importlib.util, "find_spec", lambda name: real(name) if arrow or name != "pyarrow" else None
    )
    with pytest.raises(MissingRequirementError) as caught:
        register(None)  # type: ignore[arg-type]
    assert said in str(caught.value)


@pytest.mark.parametrize("version", ["4.2.0", "4.3.0", "5.0.0.dev1", "10.0"])
def test_later_versions_will_do(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(requirements, "spark_version", lambda: version)
    requirements.check_requirements()
