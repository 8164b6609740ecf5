"""Apache Kafka and refbroker with the same ACLs give clients the same answers, API by API and version by version.

`make security-diff SEEDS=1000` runs more seeds; a failure names its seed, and KCLIENT_SECURITY_SEED repeats one alone.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import ExitStack
from copy import deepcopy

import pytest

from kclient.protocol import API_NAMES
from refbroker.handlers.registry import APIS
from refbroker.testing import RefBroker
from tests.interop.authorized_outcomes import FILTERED, OUTCOMES, Coverage
from tests.interop.authorized_requests import random_request
from tests.interop.authorizing import LISTENER, ROOT, SETTINGS, AuthorizingKafka, Side
from tests.interop.random_acls import USERS, random_acls

SEEDS = int(os.environ.get("KCLIENT_SECURITY_SEEDS", "20"))
ONLY = os.environ.get("KCLIENT_SECURITY_SEED")
AT_ONCE = 100
"""Seeds of one test, which takes a minute or two."""
MANY = 1000
"""Seeds among which each outcome is seen at least LEAST times."""
LEAST = 20
VERSIONS = {API_NAMES[key]: (api.first, api.last) for key, api in APIS.items()}
FREE = {"ApiVersions", "SaslHandshake", "SaslAuthenticate"}
"""The APIs that need no permission."""


@pytest.fixture(scope="module")
def sides(needs_kafka: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Side]]:
    listeners = f"PLAINTEXT://127.0.0.1:0,{LISTENER}://127.0.0.1:0"
    with ExitStack() as stack:
        kafka = stack.enter_context(AuthorizingKafka(tmp_path_factory.mktemp("kafka")))
        broker = stack.enter_context(RefBroker(settings={**SETTINGS, "listeners": listeners}))
        yield [
            Side(stack, "Apache Kafka", kafka.address(), kafka.address(listener=LISTENER)),
            Side(stack, "refbroker", broker.address("PLAINTEXT"), broker.address(LISTENER)),
        ]


@pytest.fixture(scope="module")
def coverage() -> Coverage:
    """The outcomes of all seeds."""
    return Coverage()


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE), ids="seeds from {}".format)
def test_both_brokers_decide_alike(sides: list[Side], coverage: Coverage, first: int) -> None:
    differences = []
    for seed in range(first, min(first + AT_ONCE, SEEDS)) if ONLY is None else [int(ONLY)]:
        rng = random.Random(seed)
        acls = random_acls(rng)
        for side in sides:
            side.set_acls(deepcopy(acls), seed)
        for api in OUTCOMES:
            for user in USERS:
                version, choices = rng.randint(*VERSIONS[api]), rng.getrandbits(32)
                requests = [
                    random_request(random.Random(choices), api, version, side.ids, side.log_dir) for side in sides
                ]
                answers = [side.ask(user, made, version) for side, made in zip(sides, requests, strict=True)]
                everything = sides[1].ask(ROOT, requests[1], version) if FILTERED in OUTCOMES[api] else None
                coverage.add(api, answers[1], everything)
                if answers[0] != answers[1]:
                    differences.append(
                        f"seed {seed}, {user}, {api} v{version}: {requests[1]}\n  Kafka:     {answers[0]}\n"
                        f"  refbroker: {answers[1]}"
                    )
    assert not differences, f"{len(differences)} differences, the first:\n" + "\n".join(differences[:20])


def test_every_outcome_was_seen_often_enough(coverage: Coverage) -> None:
    print("\n".join(coverage.lines()))  # noqa: T201
    print(f"seen less than {LEAST} times:", ", ".join(coverage.below(LEAST)) or "none")  # noqa: T201
    assert not coverage.unexpected()
    assert SEEDS < MANY or not coverage.below(LEAST)


def test_each_api_has_its_outcomes() -> None:
    assert OUTCOMES.keys() == VERSIONS.keys() - FREE
