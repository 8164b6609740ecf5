"""Brokers that coordinate transactions, for each test, in each version of transactions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.transaction_harness import TransactionHarness


@pytest_asyncio.fixture(params=[0, 1, 2], ids="version {}".format)
async def broker(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TransactionHarness]:
    """In the versions 0, 1 and 2 of transactions."""
    broker = TransactionHarness(tmp_path / "data", version=request.param)
    yield broker
    broker.close()


@pytest_asyncio.fixture
async def broker2(tmp_path: Path) -> AsyncIterator[TransactionHarness]:
    """In version 2 of transactions."""
    broker = TransactionHarness(tmp_path / "data")
    yield broker
    broker.close()


@pytest_asyncio.fixture
async def broker1(tmp_path: Path) -> AsyncIterator[TransactionHarness]:
    """In version 1 of transactions, with a client that speaks version 1."""
    broker = TransactionHarness(tmp_path / "data", version=1)
    yield broker
    broker.close()
