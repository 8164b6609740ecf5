"""Checks of the environment: PySpark in a supported version, pyarrow, and workers whose Python has kclient.

Not checked: Java, which PySpark checks itself.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from kclient.spark.errors import MissingRequirementError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_SPARK = "4.2"
"""Older versions cannot limit the micro-batches of a stream (`DataSourceStreamReader.latestOffset`)."""


def check_requirements() -> None:
    """Raise an error if a requirement is missing.

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


def check_workers(spark: SparkSession) -> None:
    """Raise an error if Spark's workers run a Python without kclient, as far as this can be checked.

    It can be checked if they run on this machine, and no files were shipped to them that might contain kclient.

    Raises:
        MissingRequirementError: they do.
    """
    # A session of Spark Connect has no context.
    context = getattr(spark, "sparkContext", None)
    if context is None or not re.match(r"local(\[|$)", context.master) or context.listFiles or context.listArchives:
        return
    python = shutil.which(context.pythonExec)
    # Do not resolve links: those of two environments lead to the same interpreter.
    if python is None or os.path.abspath(python) == os.path.abspath(sys.executable):
        return
    if _lacks_kclient(python, context.environment.get("PYTHONPATH")):
        raise MissingRequirementError(
            f"Spark's workers run {python}, which has no kclient. Set PYSPARK_PYTHON to a Python that has it, before "
            f"the session starts: os.environ['PYSPARK_PYTHON'] = {sys.executable!r}"
        )


_MISSING = 77
"""An exit status that an interpreter does not use itself."""


def _lacks_kclient(python: str, more_path: str | None) -> bool:
    """Return whether an interpreter lacks kclient; False if it does not respond."""
    path = os.pathsep.join(filter(None, [more_path, os.environ.get("PYTHONPATH")]))
    code = f"import sys, importlib.util as u; sys.exit(0 if u.find_spec('kclient') else {_MISSING})"
    try:
        asked = subprocess.run(
            [python, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == _MISSING


def spark_version() -> str | None:
    """Return the version of PySpark, None if it is not installed."""
    if importlib.util.find_spec("pyspark") is None:
        return None
    from pyspark.version import __version__

    return str(__version__)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])
