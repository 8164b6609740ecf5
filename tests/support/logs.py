"""The log messages of one part of the project in a test."""

from __future__ import annotations

import pytest


def spark_messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the messages of the PySpark source; threads of other tests and dead processes may write to other
    loggers.
    """
    return [record.message for record in caplog.records if record.name.startswith("kclient.spark")]
