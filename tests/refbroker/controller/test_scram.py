"""Changes of SCRAM credentials, and the argument of `format --add-scram`; texts are Kafka's."""

from __future__ import annotations

from base64 import b64encode

import pytest

from kclient.errors import ConfigError, KafkaError
from kclient.protocol.messages.records.metadata_log import (
    FeatureLevelRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from kclient.security.scram import MECHANISMS, credential_of, salted_password
from refbroker.controller.scram import Deletion, Upsertion, credential_record, parse_credential, plan_changes
from refbroker.metadata.image import ClusterImage

SHA_256, SHA_512 = MECHANISMS.values()


def upsertion(name: str, mechanism: int = 1, iterations: int = 4096) -> Upsertion:
    salted = salted_password(SHA_256, "secret", b"salt", iterations)
    return Upsertion(name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=salted)


def image(*users: str) -> ClusterImage:
    made = ClusterImage()
    for user in users:
        made.replay(credential_record(SHA_256, user, "secret"))
    return made


def test_a_change_stores_keys_and_not_the_salted_password() -> None:
    (record,) = plan_changes(image(), [], [upsertion("alice")])["alice"]  # type: ignore[misc]
    known = credential_of(SHA_256, salted_password(SHA_256, "secret", b"salt", 4096), b"salt", 4096)
    assert record == UserScramCredentialRecord(
        name="alice",
        mechanism=1,
        salt=b"salt",
        stored_key=known.stored_key,
        server_key=known.server_key,
        iterations=4096,
    )


def test_a_deletion_removes_a_credential_that_exists() -> None:
    found = plan_changes(image("alice"), [Deletion(name="alice", mechanism=1)], [])
    assert found == {"alice": [RemoveUserScramCredentialRecord(name="alice", mechanism=1)]}


@pytest.mark.parametrize(
    ("deletions", "upsertions", "code", "text"),
    [
        ([Deletion(name="bob", mechanism=1)], [], 91, "Attempt to delete a user credential that does not exist"),
        ([Deletion(name="alice", mechanism=2)], [], 91, "Attempt to delete a user credential that does not exist"),
        ([Deletion(name="", mechanism=1)], [], 93, "Username must not be empty"),
        ([], [upsertion("a", mechanism=3)], 33, "Unknown SCRAM mechanism"),
        ([], [upsertion("a", iterations=4095)], 93, "Too few iterations"),
        ([], [upsertion("a", iterations=16385)], 93, "Too many iterations"),
        ([], [upsertion("a"), upsertion("a", mechanism=2)], 92, "cannot be altered twice in the same request"),
        ([Deletion(name="alice", mechanism=1)], [upsertion("alice")], 92, "cannot be altered twice"),
    ],
    ids=["missing", "mechanism", "empty", "unknown mechanism", "few", "many", "twice", "deleted and set"],
)
def test_a_change_is_refused_as_in_kafka(
    deletions: list[Deletion], upsertions: list[Upsertion], code: int, text: str
) -> None:
    (refused,) = plan_changes(image("alice"), deletions, upsertions).values()
    assert isinstance(refused, KafkaError)
    assert refused.code == code
    assert text in refused.message


def test_a_cluster_at_an_old_level_has_no_credentials() -> None:
    old = image()
    old.replay(FeatureLevelRecord(name="metadata.version", feature_level=10))
    (refused,) = plan_changes(old, [], [upsertion("a")]).values()
    assert isinstance(refused, KafkaError)
    assert refused.message == "The current metadata.version does not support SCRAM"


@pytest.mark.parametrize("name", MECHANISMS)
def test_an_argument_of_format_makes_a_record(name: str) -> None:
    salt = b64encode(b"pepper").decode()
    record = parse_credential(f'{name}=[name=alice,iterations=8192,salt="{salt}",password=secret]')
    salted = salted_password(MECHANISMS[name], "secret", b"pepper", 8192)
    known = credential_of(MECHANISMS[name], salted, b"pepper", 8192)
    assert (record.name, record.mechanism, record.iterations) == ("alice", MECHANISMS[name].type, 8192)
    assert (record.salt, record.stored_key, record.server_key) == (b"pepper", known.stored_key, known.server_key)
    again = f"{name}=[name=alice,iterations=8192,salt={salt},saltedpassword={b64encode(salted).decode()}]"
    assert parse_credential(again) == record
    assert parse_credential(f"{name}=[name=a,password=b]").iterations == 4096


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("alice", "--add-scram takes MECHANISM="),
        ("MD5=[name=a,password=secret]", "The add-scram mechanism MD5 is not supported."),
        ("SCRAM-SHA-256=name=a,password=secret", "Expected configuration string to start with"),
        ("SCRAM-SHA-256=[name=a,password=secret", "Expected configuration string to end with"),
        ("SCRAM-SHA-256=[password=secret]", "You must supply 'name' to add-scram"),
        ("SCRAM-SHA-256=[name=a]", "You must supply one of 'password' or 'saltedpassword'"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=AAAA]", "You must supply 'salt' with 'saltedpassword'"),
        ("SCRAM-SHA-256=[name=a,password=secret,more=1]", "Unknown SCRAM configurations: more"),
        ("SCRAM-SHA-256=[name=a,secret]", "No equals sign found in a component"),
        ("SCRAM-SHA-256=[name=a,password=secret,salt=?]", "Failed to decode given salt"),
        ("SCRAM-SHA-256=[name=a,password=secret,iterations=x]", "Failed to parse iterations count: x"),
        ("SCRAM-SHA-256=[name=a,password=secret,iterations=1]", "must be >= 4096 for add-scram using SCRAM-SHA-256"),
        ("SCRAM-SHA-256=[name=a,password=secret,iterations=99999]", "must be <= 16384 for add-scram"),
    ],
    ids=lambda value: value.split("secret")[0] if value.startswith(("SCRAM", "MD5", "alice")) else "",
)
def test_a_malformed_argument_of_format_is_refused_without_its_password(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_credential(text)
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)
