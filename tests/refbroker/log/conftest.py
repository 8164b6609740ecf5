"""A data directory for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from refbroker.log import PartitionLog
from tests.support.stores import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path)
    yield store
    store.crash()


@pytest.fixture
def log(store: Store) -> PartitionLog:
    return store.log()
