"""What a setting's value may be, and how Kafka writes it."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.admin.configs import config_text
from kclient.errors import ConfigError


@pytest.mark.parametrize(
    ("value", "text"),
    [("3", "3"), (3, "3"), (0.5, "0.5"), (True, "true"), (False, "false"), (None, None)],
    ids=["text", "int", "float", "true", "false", "none"],
)
def test_values_are_written_as_kafka_writes_them(value: Any, text: str | None) -> None:
    assert config_text("retention.ms", value) == text


@pytest.mark.parametrize("value", [b"3", ["compact"], object()], ids=["bytes", "list", "object"])
def test_other_values_are_refused_by_name(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"the value of retention\.ms must be a str, a number or a bool, not "):
        config_text("retention.ms", value)
