"""The decisions of the authorizer."""

from __future__ import annotations

import logging
from uuid import UUID

import pytest

from kclient.protocol.acls import AclOperation, AclPermissionType, AclResourceType, PatternType
from refbroker.security.acls import Acl, AclFilter, Entry, Pattern
from refbroker.security.authorizer import DECISION_LIMIT, Authorizer
from refbroker.security.permissions import DESCRIBE_TOPIC, READ_TOPIC, WRITE_TOPIC
from refbroker.security.principals import Principal

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
READ, WRITE, DESCRIBE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL
HOST = "10.0.0.1"


def acl(
    name: str,
    *,
    principal: str = "User:anne",
    pattern: PatternType = LITERAL,
    host: str = "*",
    operation: AclOperation = READ,
    permission: AclPermissionType = ALLOW,
    resource: AclResourceType = TOPIC,
) -> Acl:
    return Acl(Pattern(resource, pattern, name), Entry(principal, host, operation, permission))


def authorizer(*acls: Acl, super_users: tuple[str, ...] = (), default: bool = False) -> Authorizer:
    made = Authorizer(super_users, default=default)
    for number, each in enumerate(acls):
        made.add(UUID(int=number + 1), each)
    return made


def allows(
    found: Authorizer, name: str, operation: AclOperation = READ, *, principal: str = "User:anne", host: str = HOST
) -> bool:
    return found.decide(principal, host, operation, TOPIC, name)[0]


def test_a_literal_acl_is_for_its_name_only() -> None:
    found = authorizer(acl("orders"))
    assert allows(found, "orders")
    assert not allows(found, "orders2")
    assert not allows(found, "order")


def test_a_wildcard_is_for_every_name() -> None:
    assert allows(authorizer(acl("*")), "orders")
    assert allows(authorizer(acl("*")), "*")


def test_a_literal_star_within_a_name_is_no_wildcard() -> None:
    assert not allows(authorizer(acl("or*")), "orders")


@pytest.mark.parametrize("name", ["app.", "app.orders", "app..x"])
def test_a_prefix_is_for_every_name_that_begins_with_it(name: str) -> None:
    assert allows(authorizer(acl("app.", pattern=PREFIXED)), name)


def test_a_prefix_is_not_for_shorter_names() -> None:
    assert not allows(authorizer(acl("app.", pattern=PREFIXED)), "app")


def test_an_acl_is_for_its_principal_or_everybody() -> None:
    assert not allows(authorizer(acl("orders", principal="User:bob")), "orders")
    assert allows(authorizer(acl("orders", principal="User:*")), "orders")
    assert not allows(authorizer(acl("orders", principal="Group:anne")), "orders")


def test_an_acl_is_for_its_host_or_all_hosts() -> None:
    found = authorizer(acl("orders", host="10.0.0.2"))
    assert not allows(found, "orders")
    assert allows(found, "orders", host="10.0.0.2")


@pytest.mark.parametrize("pattern", [("orders", LITERAL), ("*", LITERAL), ("ord", PREFIXED)], ids=str)
def test_one_acl_that_denies_outweighs_all_that_allow(pattern: tuple[str, PatternType]) -> None:
    name, kind = pattern
    allowed = [acl("orders"), acl("*"), acl("o", pattern=PREFIXED), acl("orders", operation=ALL)]
    assert allows(authorizer(*allowed), "orders")
    assert not allows(authorizer(*allowed, acl(name, pattern=kind, permission=DENY)), "orders")


@pytest.mark.parametrize("operation", [READ, WRITE, AclOperation.DELETE, AclOperation.ALTER, ALL])
def test_a_user_of_a_topic_may_describe_it(operation: AclOperation) -> None:
    assert allows(authorizer(acl("orders", operation=operation)), "orders", DESCRIBE)


@pytest.mark.parametrize("operation", [AclOperation.CREATE, AclOperation.ALTER_CONFIGS])
def test_other_operations_do_not_include_describe(operation: AclOperation) -> None:
    assert not allows(authorizer(acl("orders", operation=operation)), "orders", DESCRIBE)


def test_altering_settings_includes_describing_them() -> None:
    found = authorizer(acl("orders", operation=AclOperation.ALTER_CONFIGS))
    assert allows(found, "orders", AclOperation.DESCRIBE_CONFIGS)


def test_denying_read_does_not_deny_describe() -> None:
    found = authorizer(acl("orders", operation=DESCRIBE), acl("orders", permission=DENY))
    assert allows(found, "orders", DESCRIBE)


def test_without_any_acl_on_the_resource_the_default_decides() -> None:
    found = authorizer(acl("orders", principal="User:bob"), default=True)
    assert allows(found, "payments")
    assert not allows(found, "orders"), "somebody else's ACL is an ACL on the resource"


def test_super_users_need_no_acl() -> None:
    found = authorizer(acl("orders", principal="User:*", permission=DENY), super_users=("User:root",))
    assert allows(found, "orders", principal="User:root")
    assert not allows(found, "orders")


def test_a_change_of_acls_takes_effect_at_once() -> None:
    found = authorizer()
    assert not allows(found, "orders")
    found.add(UUID(int=1), acl("ord", pattern=PREFIXED))
    assert allows(found, "orders")
    found.add(UUID(int=2), acl("ord", pattern=PREFIXED, principal="User:bob"))
    found.remove(UUID(int=1))
    assert not allows(found, "orders")
    assert allows(found, "orders", principal="User:bob")
    found.remove(UUID(int=2))
    found.remove(UUID(int=2))
    assert not allows(found, "orders", principal="User:bob")


def allows_any(found: Authorizer, operation: AclOperation = WRITE) -> bool:
    return found.decide_any("User:anne", HOST, operation, TOPIC)


@pytest.mark.parametrize(
    ("acls", "allowed"),
    [
        ([], False),
        ([acl("orders", operation=WRITE)], True),
        ([acl("app", operation=WRITE, pattern=PREFIXED)], True),
        ([acl("orders", operation=ALL)], True),
        ([acl("orders", operation=READ)], False),
        ([acl("orders", operation=WRITE, host="10.0.0.2")], False),
        ([acl("orders", operation=WRITE, resource=GROUP)], False),
        ([acl("orders", operation=WRITE), acl("orders", operation=WRITE, permission=DENY)], False),
        ([acl("orders", operation=WRITE), acl("ord", operation=WRITE, pattern=PREFIXED, permission=DENY)], False),
        ([acl("app", operation=WRITE, pattern=PREFIXED), acl("app", operation=WRITE, permission=DENY)], True),
        ([acl("*", operation=WRITE), acl("o", operation=WRITE, pattern=PREFIXED, permission=DENY)], True),
        ([acl("orders", operation=WRITE), acl("*", operation=ALL, permission=DENY)], False),
    ],
    ids=[
        "none", "literal", "prefix", "all", "another operation", "another host", "another type", "denied literal",
        "denied prefix", "literal denied under a prefix", "everything but a prefix", "everything denied",
    ],
)  # fmt: skip
def test_permission_for_any_resource_needs_one_that_is_not_denied(acls: list[Acl], allowed: bool) -> None:
    assert allows_any(authorizer(*acls)) is allowed


def test_super_users_and_the_default_count_for_any_resource() -> None:
    assert allows_any(authorizer(default=True))
    assert allows_any(authorizer(super_users=("User:anne",)))


@pytest.mark.parametrize("count", [100, 10_000])
def test_the_cost_of_a_decision_does_not_grow_with_the_number_of_acls(count: int) -> None:
    found = authorizer(
        *(acl(f"topic-{number:05}", principal=f"User:u{number}") for number in range(count)),
        *(acl(f"p{number:05}", pattern=PREFIXED, host=f"host{number}") for number in range(count)),
    )
    before = found.lookups
    assert not allows(found, "topic-00050")
    assert not allows(found, "p00050.x")
    assert found.lookups - before == 38
    before = found.lookups
    assert not allows(found, "p00050.x")
    assert found.lookups == before, "the decision is remembered"


def test_operations_are_those_that_are_allowed() -> None:
    found = authorizer(acl("orders"), acl("orders", operation=WRITE))
    access = found.access(Principal("User", "anne"), HOST, 3)
    assert access.operations(TOPIC, "orders") == 1 << READ | 1 << WRITE | 1 << DESCRIBE


def test_refusals_are_audited_and_what_a_client_has_not_named_is_not(caplog: pytest.LogCaptureFixture) -> None:
    found = authorizer(acl("orders"), acl("secret", permission=DENY), super_users=("User:root",))
    access = found.access(Principal("User", "anne"), HOST, 1)
    with caplog.at_level(logging.DEBUG, "refbroker.authorizer"):
        assert access.allows(READ_TOPIC, "orders")
        assert not access.allows(READ_TOPIC, "secret")
        assert not access.allows(WRITE_TOPIC, "orders")
        assert not access.allows(DESCRIBE_TOPIC, "other", filters=True)
        assert found.access(Principal("User", "root"), HOST, 1).allows(WRITE_TOPIC, "orders")
    who, where = "Principal = User:anne is", f"from host = {HOST} on resource = Topic:LITERAL"
    end = "for request = Fetch with resourceRefCount = 1 based on rule"

    def matched(name: str, permission: str) -> str:
        pattern = f"resourceType=TOPIC, resourceName={name}, patternType=LITERAL"
        entry = f"principal=User:anne, host=*, operation=READ, permissionType={permission}"
        return f"MatchingAcl(acl=StandardAcl({pattern}, {entry}))"

    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("DEBUG", f"{who} Allowed operation = READ {where}:orders {end} {matched('orders', 'ALLOW')}"),
        ("INFO", f"{who} Denied operation = READ {where}:secret {end} {matched('secret', 'DENY')}"),
        ("INFO", f"{who} Denied operation = WRITE {where}:orders {end} DefaultDeny"),
        ("DEBUG", f"Principal = User:root is Allowed operation = WRITE {where}:orders {end} SuperUser"),
    ]


ANY = AclFilter(AclResourceType.ANY, PatternType.ANY, None, None, None, AclOperation.ANY, AclPermissionType.ANY)


@pytest.mark.parametrize(
    ("wanted", "selected"),
    [
        (ANY, ["orders", "ord", "*", "fans"]),
        (ANY._replace(resource_type=TOPIC), ["orders", "ord", "*"]),
        (ANY._replace(name="orders"), ["orders"]),
        (ANY._replace(name="orders", pattern_type=PatternType.MATCH), ["orders", "ord", "*"]),
        (ANY._replace(name="ord", pattern_type=LITERAL), []),
        (ANY._replace(name="ord", pattern_type=PREFIXED), ["ord"]),
        (ANY._replace(principal="User:bob"), ["fans"]),
        (ANY._replace(host="10.0.0.2"), ["*"]),
        (ANY._replace(operation=WRITE), ["ord"]),
        (ANY._replace(permission=DENY), ["*"]),
    ],
    ids=["any", "type", "name", "match", "literal", "prefixed", "principal", "host", "operation", "permission"],
)
def test_a_filter_selects_acls(wanted: AclFilter, selected: list[str]) -> None:
    found = authorizer(
        acl("orders"),
        acl("ord", pattern=PREFIXED, operation=WRITE),
        acl("*", host="10.0.0.2", permission=DENY),
        acl("fans", resource=GROUP, principal="User:bob"),
    )
    assert [each.pattern.name for _, each in found.select(wanted)] == selected


def test_the_names_of_resources_do_not_fill_memory() -> None:
    found = authorizer(acl("o", pattern=PREFIXED))
    for number in range(2 * DECISION_LIMIT):
        assert allows(found, f"o{number}")
    assert len(found._decisions) <= DECISION_LIMIT
    for name in ("o" * 30_000, "p" * 30_000):
        assert allows(found, name) is name.startswith("o")
    assert max(len(key[-1]) for key in found._decisions) < 100
