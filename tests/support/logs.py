"""What a part of the project has logged in a test."""

from __future__ import annotations

import pytest


def told_by_spark(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the PySpark source has said; other loggers may tell what threads of other tests do, or of dead processes."""
    return [record.message for record in caplog.records if record.name.startswith("kclient.spark")]
