"""`kclient acls list|create|delete`: the functions of Kafka's kafka-acls.sh."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, NamedTuple

import typer

from kclient.admin import AclBinding, AclBindingFilter, AclOperation, AclPermissionType, AclResourceType, PatternType
from kclient.cli import output
from kclient.cli.app import App
from kclient.cli.connection import Json, Properties, Servers, Settings, admin
from kclient.cli.results import raise_if, succeeded
from kclient.protocol.acls import CLUSTER_NAME, WILDCARD

app = App(help="List, create and delete ACLs: which principals may do what.")

Topic = Annotated[list[str] | None, typer.Option("--topic", metavar="TOPIC", help="A topic; repeatable.")]
Group = Annotated[list[str] | None, typer.Option("--group", metavar="GROUP", help="A consumer group; repeatable.")]
TransactionalId = Annotated[
    list[str] | None, typer.Option("--transactional-id", metavar="ID", help="A transactional id; repeatable.")
]
DelegationToken = Annotated[
    list[str] | None, typer.Option("--delegation-token", metavar="ID", help="A delegation token; repeatable.")
]
User = Annotated[
    list[str] | None,
    typer.Option("--user-principal", metavar="USER:NAME", help="A user, for the operations on tokens; repeatable."),
]
Cluster = Annotated[bool, typer.Option("--cluster", help="The cluster.")]
Prefixed = Annotated[bool, typer.Option("--prefixed", help="All names that begin with the given ones.")]
Host = Annotated[str | None, typer.Option("--host", metavar="IP", help="Connections from this address only.")]


class Resource(NamedTuple):
    """A type of resource and a name."""

    type: AclResourceType
    name: str


_NO_RESOURCE: list[tuple[AclResourceType, str | None]] = [(AclResourceType.ANY, None)]
_NO_PRINCIPAL: list[str | None] = [None]


@app.command("list")
def list_acls(
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    delegation_token: DelegationToken = None,
    user: User = None,
    cluster: Cluster = False,
    principal: Annotated[
        list[str] | None, typer.Option("--principal", metavar="USER:NAME", help="Only this principal; repeatable.")
    ] = None,
    match: Annotated[
        bool, typer.Option("--match", help="All ACLs that apply to the names: prefixes and * as well.")
    ] = False,
    json: Json = False,
) -> None:
    """List the ACLs of the cluster, or those of some resources or principals."""
    resources = _resources(topic, group, transactional_id, delegation_token, user, cluster)
    filters = _filters(resources, principal, (), PatternType.MATCH if match else PatternType.ANY, None)
    with admin(servers, properties, settings) as client:
        found = dict.fromkeys(binding for each in filters for binding in client.describe_acls(each))
    _show(found, json)


@app.command()
def create(
    principal: Annotated[
        list[str],
        typer.Option("--principal", metavar="USER:NAME", help="The principal; User:* is everybody. Repeatable."),
    ],
    operation: Annotated[
        list[str] | None,
        typer.Option("--operation", metavar="OPERATION", help="An operation, such as read or write; repeatable."),
    ] = None,
    producer: Annotated[
        bool, typer.Option("--producer", help="All operations of a producer on its topics and ids.")
    ] = False,
    consumer: Annotated[
        bool, typer.Option("--consumer", help="All operations of a consumer on its topics and groups.")
    ] = False,
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    delegation_token: DelegationToken = None,
    user: User = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    host: Host = None,
    deny: Annotated[bool, typer.Option("--deny", help="Deny instead of allow; this overrides all ACLs that allow.")] = (
        False
    ),
    json: Json = False,
) -> None:
    """Create ACLs: each principal may use each operation on each resource."""
    resources = _resources(topic, group, transactional_id, delegation_token, user, cluster)
    if not resources:
        raise typer.BadParameter("name a resource: --topic, --group, --transactional-id, --cluster, ...")
    wanted = list(_wanted(resources, operation or (), producer, consumer))
    bindings = [
        AclBinding(
            *resource,
            principal=who,
            operation=each,
            permission_type=AclPermissionType.DENY if deny else AclPermissionType.ALLOW,
            pattern_type=PatternType.PREFIXED if prefixed else PatternType.LITERAL,
            host=host or WILDCARD,
        )
        for who in principal
        for resource, each in wanted
    ]
    with admin(servers, properties, settings) as client:
        created, error = succeeded(lambda: client.create_acls(bindings))
    _show(created, json)
    raise_if(error)


@app.command()
def delete(
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    delegation_token: DelegationToken = None,
    user: User = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    principal: Annotated[
        list[str] | None, typer.Option("--principal", metavar="USER:NAME", help="Only this principal; repeatable.")
    ] = None,
    operation: Annotated[
        list[str] | None, typer.Option("--operation", metavar="OPERATION", help="Only this operation; repeatable.")
    ] = None,
    host: Host = None,
    json: Json = False,
) -> None:
    """Delete ACLs of resources or principals. Names select the ACLs with exactly these names."""
    resources = _resources(topic, group, transactional_id, delegation_token, user, cluster)
    if not resources and not principal:
        raise typer.BadParameter("name a resource or a --principal; without either, all ACLs would be deleted")
    names = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    filters = _filters(resources, principal, operation, names if resources or prefixed else PatternType.ANY, host)
    with admin(servers, properties, settings) as client:
        deleted, error = succeeded(lambda: client.delete_acls(filters))
    _show(dict.fromkeys(binding for bindings in deleted.values() for binding in bindings), json)
    raise_if(error)


def _resources(
    topics: list[str] | None,
    groups: list[str] | None,
    transactional_ids: list[str] | None,
    tokens: list[str] | None,
    users: list[str] | None,
    cluster: bool,
) -> list[Resource]:
    named = {
        AclResourceType.TOPIC: topics,
        AclResourceType.GROUP: groups,
        AclResourceType.TRANSACTIONAL_ID: transactional_ids,
        AclResourceType.DELEGATION_TOKEN: tokens,
        AclResourceType.USER: users,
        AclResourceType.CLUSTER: [CLUSTER_NAME] if cluster else None,
    }
    return [Resource(kind, name) for kind, names in named.items() for name in names or ()]


def _filters(
    resources: list[Resource],
    principals: list[str] | None,
    operations: Iterable[str] | None,
    pattern: PatternType,
    host: str | None,
) -> list[AclBindingFilter]:
    """Return a filter for each combination; what is not given is not compared."""
    return [
        AclBindingFilter(kind, name, principal=principal, operation=operation, pattern_type=pattern, host=host)
        for kind, name in [*resources] or _NO_RESOURCE
        for principal in [*(principals or ())] or _NO_PRINCIPAL
        for operation in list(map(_operation, operations or ())) or [AclOperation.ANY]
    ]


_PRODUCER = {
    AclResourceType.TOPIC: (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE),
    AclResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE),
}
_CONSUMER = {
    AclResourceType.TOPIC: (AclOperation.READ, AclOperation.DESCRIBE),
    AclResourceType.GROUP: (AclOperation.READ,),
}


def _wanted(
    resources: list[Resource], operations: Iterable[str], producer: bool, consumer: bool
) -> Iterator[tuple[Resource, AclOperation]]:
    """Yield each resource with each operation on it: those of --operation, --producer and --consumer."""
    named = tuple(map(_operation, operations))
    if not (named or producer or consumer):
        raise typer.BadParameter("name an --operation, or --producer or --consumer")
    for resource in resources:
        role = (_PRODUCER.get(resource.type, ()) if producer else ()) + (
            _CONSUMER.get(resource.type, ()) if consumer else ()
        )
        found = dict.fromkeys(named + role)
        if not found:
            kind = resource.type.name.lower()
            raise typer.BadParameter(f"--producer and --consumer ask for nothing on a {kind}; name an --operation")
        yield from ((resource, each) for each in found)


def _operation(text: str) -> AclOperation:
    name = text.replace("-", "_").upper()
    known = [each.name for each in AclOperation if each not in (AclOperation.UNKNOWN, AclOperation.ANY)]
    if name not in known:
        names = ", ".join(each.lower().replace("_", "-") for each in known)
        raise typer.BadParameter(f"there is no operation {text!r}, only {names}", param_hint="--operation")
    return AclOperation[name]


def _show(bindings: Iterable[AclBinding], json: bool) -> None:
    ordered = sorted(
        bindings, key=lambda acl: (acl.resource_type, acl.resource_name, acl.principal, acl.operation, acl.host)
    )
    if json:
        output.as_json(ordered)
        return
    columns = ["resource", "name", "pattern", "principal", "permission", "operation", "host"]
    rows = (
        (
            acl.resource_type.name,
            acl.resource_name,
            acl.pattern_type.name,
            acl.principal,
            acl.permission_type.name,
            acl.operation.name,
            acl.host,
        )
        for acl in ordered
    )
    output.table(columns, rows)
