"""`help` and `dir` show users what they may use: options with their defaults, methods with their types."""

from __future__ import annotations

import inspect
import pydoc
import re
import subprocess
import sys
from typing import Any

import pytest

import kclient
from kclient.producer import future as pure_future
from kclient.records.pure import record as pure_record

CLIENTS = ["Producer", "AsyncProducer", "Consumer", "AsyncConsumer", "Admin", "AsyncAdmin"]


@pytest.mark.parametrize("name", CLIENTS)
def test_help_of_a_client_shows_its_options_with_defaults_and_units(name: str) -> None:
    text = inspect.getdoc(getattr(kclient, name)) or ""
    assert "    request_timeout_ms = 30000 ms\n" in text
    assert "Raises:" in text


@pytest.mark.parametrize("name", CLIENTS)
def test_every_public_method_of_a_client_has_a_docstring(name: str) -> None:
    client = getattr(kclient, name)
    undocumented = [
        method
        for method, value in inspect.getmembers(client)
        if not method.startswith("_") and callable(value) and not inspect.getdoc(value)
    ]
    assert undocumented == []


def test_help_of_the_producer_shows_send_with_types_among_its_own_methods() -> None:
    text = pydoc.plain(pydoc.render_doc(kclient.Producer))
    own, _, inherited = text.partition("Methods inherited from")
    own = own.replace("'", "").replace("\n |  ", " ")  # Python 3.13 quotes and breaks signatures in another way
    assert re.search(r"send\(\s*self,\s*topic: str,\s*value: Any = None", own)
    assert "__reduce_cython__" not in inherited


@pytest.mark.parametrize(
    ("used", "pure"),
    [
        pytest.param(kclient.RecordFuture, pure_future.RecordFuture, id="RecordFuture"),
        pytest.param(kclient.ConsumerRecord, pure_record.ConsumerRecord, id="ConsumerRecord"),
    ],
)
def test_help_of_a_compiled_class_is_that_of_its_pure_twin(used: Any, pure: Any) -> None:
    assert inspect.getdoc(used) == inspect.getdoc(pure)


def test_dir_of_the_package_shows_public_names_only() -> None:
    assert [name for name in dir(kclient) if name not in kclient.__all__] == [
        "__version__",
        "admin",
        "assignors",
        "errors",
        "metrics",
        "serialization",
        "transform",
    ]


def test_public_modules_need_no_import_of_their_own() -> None:
    program = "import kclient; print(kclient.errors.KafkaError.__name__)"
    ended = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert ended.stdout == "KafkaError\n"
