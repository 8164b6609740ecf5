"""ACLs, users and quotas, administered by kclient on Apache Kafka and on refbroker with equal results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kclient import Admin
from kclient.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    QuotaEntity,
    QuotaFilter,
    QuotaMatch,
    ScramCredentialInfo,
    ScramDeletion,
    ScramUpsertion,
)
from kclient.errors import AdminError
from refbroker.testing import RefBroker
from tests.interop.authorizing import SETTINGS, AuthorizingKafka
from tests.support.patience import CHANGE
from tests.support.waiting import wait_until

TOPIC = AclBinding(AclResourceType.TOPIC, "orders", "User:anne", AclOperation.WRITE)
PREFIX = AclBinding(
    AclResourceType.GROUP,
    "app",
    "User:*",
    AclOperation.ALL,
    AclPermissionType.DENY,
    PatternType.PREFIXED,
    "127.0.0.1",
)
CLUSTER = AclBinding(AclResourceType.CLUSTER, "kafka-cluster", "User:anne", AclOperation.ALTER)
WRONG_PRINCIPAL = AclBinding(AclResourceType.TOPIC, "orders", "anne", AclOperation.READ)
WRONG_CLUSTER = AclBinding(AclResourceType.CLUSTER, "mine", "User:anne", AclOperation.ALTER)
WRONG_OPERATION = AclBinding(AclResourceType.TOPIC, "orders", "User:anne", AclOperation.ANY)


@pytest.fixture(scope="module", params=["kafka", "refbroker"])
def admin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Admin]:
    """An admin client that may do everything."""
    if request.param == "kafka":
        request.getfixturevalue("needs_kafka")
        directory: Path = tmp_path_factory.mktemp("kafka")
        with AuthorizingKafka(directory) as kafka, Admin(bootstrap_servers=kafka.bootstrap_servers) as client:
            yield client
    else:
        settings = SETTINGS | {"listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0"}
        with RefBroker(settings=settings) as broker, Admin(bootstrap_servers=broker.address("PLAINTEXT")) as client:
            yield client


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returned, or what succeeded and the errors by key, with the texts of the broker."""
    try:
        return call()
    except AdminError as error:
        return error.results, {
            key: (type(each).__name__, each.message.partition(";")[0]) for key, each in error.errors.items()
        }


def test_acls(admin: Admin) -> None:
    found = outcome(lambda: admin.create_acls([TOPIC, WRONG_PRINCIPAL, PREFIX, WRONG_CLUSTER, CLUSTER]))
    assert found[0] == dict.fromkeys([TOPIC, PREFIX, CLUSTER])
    assert found[1][WRONG_CLUSTER] == (
        "InvalidRequestError",
        "The only valid name for the CLUSTER resource is kafka-cluster",
    )
    assert found[1][WRONG_PRINCIPAL][0] == "InvalidRequestError"
    failed = outcome(lambda: admin.create_acls([WRONG_OPERATION, CLUSTER]))[1]
    assert {key: name for key, (name, _) in failed.items()} == dict.fromkeys(
        [WRONG_OPERATION, CLUSTER], "UnknownServerError"
    )
    wait_until(lambda: set(admin.describe_acls()) == {TOPIC, PREFIX, CLUSTER}, CHANGE)
    of_app = AclBindingFilter(AclResourceType.GROUP, "application", pattern_type=PatternType.MATCH)
    assert admin.describe_acls(of_app) == [PREFIX]
    everything = AclBindingFilter()
    assert set(admin.delete_acls([of_app, everything])[everything]) >= {TOPIC, CLUSTER}
    wait_until(lambda: admin.describe_acls() == [], CHANGE)


def test_users(admin: Admin) -> None:
    twice = [ScramUpsertion("anne", "a", "SCRAM-SHA-256"), ScramUpsertion("anne", "a", iterations=5000)]
    assert outcome(lambda: admin.alter_user_scram_credentials(twice))[1]["anne"][0] == "DuplicateResourceError"
    for upsertion in twice:
        assert admin.alter_user_scram_credentials(upsertion) == {"anne": None}
    expected = {ScramCredentialInfo("SCRAM-SHA-256", 4096), ScramCredentialInfo("SCRAM-SHA-512", 5000)}
    wait_until(lambda: set(admin.describe_user_scram_credentials().get("anne", ())) == expected, CHANGE)
    few = ScramUpsertion("few", "f", iterations=1000)
    assert outcome(lambda: admin.alter_user_scram_credentials([few, ScramDeletion("nobody")]))[1] == {
        "few": ("UnacceptableCredentialError", "Too few iterations"),
        "nobody": (
            "ResourceNotFoundError",
            "Attempt to delete a user credential that does not exist",
        ),
    }
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        assert admin.alter_user_scram_credentials(ScramDeletion("anne", mechanism)) == {"anne": None}
    wait_until(lambda: admin.describe_user_scram_credentials() == {}, CHANGE)
    assert outcome(lambda: admin.describe_user_scram_credentials("anne"))[1]["anne"][0] == "ResourceNotFoundError"


def test_quotas(admin: Admin) -> None:
    anne, default, both = QuotaEntity("anne"), QuotaEntity(""), QuotaEntity("anne", "app")
    address = QuotaEntity(ip="127.0.0.1")
    set_quotas: dict[QuotaEntity, dict[str, float | None]] = {
        anne: {"producer_byte_rate": 1048576, "consumer_byte_rate": 2097152.0},
        default: {"request_percentage": 50.5},
        both: {"controller_mutation_rate": 2},
        address: {"connection_creation_rate": 10},
    }
    assert admin.alter_client_quotas(set_quotas) == dict.fromkeys(set_quotas)
    wait_until(lambda: admin.describe_client_quotas() == set_quotas, CHANGE)
    assert set(admin.describe_client_quotas(QuotaFilter(user=QuotaMatch.ANY))) == {anne, default, both}
    assert set(admin.describe_client_quotas(QuotaFilter(user="anne", strict=True))) == {anne}
    assert set(admin.describe_client_quotas(QuotaFilter(user=""))) == {default}
    assert set(admin.describe_client_quotas(QuotaFilter(ip="127.0.0.1"))) == {address}
    failed = outcome(lambda: admin.alter_client_quotas({anne: {"bytes": 1}, default: {"producer_byte_rate": 1}}))
    assert failed[0] == {default: None}
    assert failed[1][anne][0] == "InvalidRequestError"
    assert outcome(lambda: admin.alter_client_quotas({address: {"request_percentage": 1}}))[1][address][0] == (
        "InvalidRequestError"
    )
    admin.alter_client_quotas({entity: dict.fromkeys(quotas) for entity, quotas in set_quotas.items()})
    admin.alter_client_quotas({default: {"producer_byte_rate": None}})
    wait_until(lambda: admin.describe_client_quotas() == {}, CHANGE)
