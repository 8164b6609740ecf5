"""What the data source needs of the machine it runs on: a PySpark that is new enough, and pyarrow.

Left out: Java, which PySpark itself asks for.
"""

from __future__ import annotations

import importlib.util
import re

from kclient.spark.errors import MissingRequirementError

OLDEST_SPARK = "4.2"
"""Before it, a stream cannot be given a limit (`DataSourceStreamReader.latestOffset`)."""


def check_requirements() -> None:
    """Raise unless everything is there.

    Raises:
        MissingRequirementError: PySpark is missing or too old, or pyarrow is missing.
    """
    version = spark_version()
    if version is None:
        raise MissingRequirementError(f"this needs PySpark {OLDEST_SPARK} or newer: pip install 'kclient[spark]'")
    if _numbers(version) < _numbers(OLDEST_SPARK):
        raise MissingRequirementError(f"this needs PySpark {OLDEST_SPARK} or newer, and {version} is installed here")
    if importlib.util.find_spec("pyarrow") is None:
        raise MissingRequirementError(
            "this needs pyarrow, here and on every executor: pip install 'kclient[spark]' into the environment that "
            "PYSPARK_PYTHON names"
        )


def spark_version() -> str | None:
    """The version of PySpark; None where there is none."""
    if importlib.util.find_spec("pyspark") is None:
        return None
    from pyspark.version import __version__

    return str(__version__)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])
