"""Copies from one topic to another while programs and the broker are killed at random: each record is there once.

On refbroker and on Apache Kafka, by programs with kclient's loop, its calls, and those of confluent-kafka.
KCLIENT_KILLS says how often; fifty take some minutes. What happened is logged (`--log-cli-level=INFO`).
"""

from __future__ import annotations

import logging
import random
from pathlib import Path

import pytest

from tests.interop.exactly_once import BROKERS, Play
from tests.support.killing import KILLS
from tests.support.patience import GUARD

log = logging.getLogger(__name__)


@pytest.mark.timeout(GUARD + 40 * KILLS)
@pytest.mark.parametrize("kind", ["transform", "plain", "confluent"])
@pytest.mark.parametrize("broker", list(BROKERS))
def test_each_record_is_copied_once_who_is_killed(
    tmp_path: Path, rng: random.Random, request: pytest.FixtureRequest, broker: str, kind: str
) -> None:
    if kind == "confluent":
        pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    if broker == "kafka":
        request.getfixturevalue("needs_kafka")
    with BROKERS[broker](tmp_path) as running:
        play = Play(running, kind, tmp_path, rng)
        play.run(KILLS)
    log.info("%s, %s: %s", broker, kind, dict(play.counts))
    assert play.counts["kills"] >= KILLS
    assert play.counts["commit markers"] > 0
