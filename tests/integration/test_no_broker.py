"""The errors of calls that wait for a broker without success."""

from __future__ import annotations

import socket

import pytest

from kclient import Producer
from kclient.errors import KafkaTimeoutError

pytestmark = pytest.mark.refbroker_only


def test_a_transactional_call_says_why_it_waits() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        servers = f"127.0.0.1:{unused.getsockname()[1]}"
        with (
            Producer(bootstrap_servers=servers, transactional_id="t") as producer,
            pytest.raises(KafkaTimeoutError, match=r"last error was: could not connect to .* it continues"),
        ):
            producer.init_transactions(timeout=0.5)
