"""The public names, which are loaded on first use."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import kclient


@pytest.mark.parametrize("failure", [AttributeError("no send_many"), ImportError("no _hot")])
def test_a_part_that_cannot_be_loaded_says_why(failure: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(name: str) -> Any:
        raise failure

    monkeypatch.delitem(vars(kclient), "Producer", raising=False)
    monkeypatch.setattr(importlib, "import_module", fails)
    with pytest.raises(ImportError, match=str(failure)) as raised:
        from kclient import Producer  # noqa: F401
    assert failure in (raised.value, raised.value.__cause__)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Prodcer'"):
        _ = kclient.Prodcer
