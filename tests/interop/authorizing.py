"""Apache Kafka and refbroker with an authorizer, users and topics: what tests of permissions compare.

Elsewhere: random ACLs (`random_acls`) and requests (`authorized_requests`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import UUID

from kclient.protocol import Message
from kclient.protocol.acls import AclOperation, AclPermissionType, AclResourceType, PatternType
from kclient.protocol.fields import fields_of
from kclient.protocol.messages.api_versions import ApiVersionsRequest
from kclient.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kclient.protocol.messages.create_acls import CreateAclsRequest
from kclient.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from kclient.protocol.messages.create_topics import CreateTopicsRequest
from kclient.protocol.messages.delete_acls import DeleteAclsRequest
from kclient.protocol.messages.describe_acls import DescribeAclsRequest
from kclient.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kclient.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest
from kclient.protocol.messages.init_producer_id import InitProducerIdRequest
from kclient.protocol.messages.metadata import MetadataRequest
from kclient.protocol.messages.offset_fetch import OffsetFetchRequest
from kclient.protocol.messages.produce import ProduceRequest
from kclient.protocol.schema import Struct
from kclient.security.scram import MECHANISMS
from refbroker.security.authorizer import STANDARD_AUTHORIZER
from tests.interop.authorized_outcomes import CLOSED, REFUSALS
from tests.interop.random_acls import GROUPS, LIVE_GROUP, OWNERS, TOKENS, TOPICS, TRANSACTIONAL_IDS, USERS
from tests.support.broker_settings import KEEP_OLD_RECORDS
from tests.support.kafka.cluster import KafkaCluster
from tests.support.patience import CHANGE
from tests.support.waiting import wait_until
from tests.support.wire import Wire

SHOWN = {
    "error_code", "name", "topic", "topic_name", "group_id", "transactional_id", "partition_index", "partition",
    "authorized_operations", "topic_authorized_operations", "cluster_authorized_operations", "partition_error_code",
    "topic_config_error_code", "error_message", "user", "key", "resource_name", "resource_type", "index",
    "num_partitions", "principal_type", "principal_name",
}  # fmt: skip
"""The fields that must be equal: errors, names and operations, but no ids and offsets."""

LISTENER = "SASL_PLAINTEXT"
ROOT, STRANGER = "root", "carol"
"""A user that may do everything, such as creating delegation tokens, which anonymous clients cannot; and one that owns
nothing.
"""
_MODULE = "org.apache.kafka.common.security.{}LoginModule required"
_jaas = _MODULE.format("plain.Plain") + "".join(f' user_{user}="{user}"' for user in (*USERS, ROOT, STRANGER))
SETTINGS = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": f"User:ANONYMOUS;User:{ROOT}",
    "allow.everyone.if.no.acl.found": "false",
    "sasl.enabled.mechanisms": ",".join(("PLAIN", *MECHANISMS)),
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{_jaas};",
    **{
        f"listener.name.sasl_plaintext.{mechanism.lower()}.sasl.jaas.config": f"{_MODULE.format('scram.Scram')};"
        for mechanism in MECHANISMS
    },
    "delegation.token.secret.key": "k3y",
    # A member that sends no heartbeats stays for the whole run.
    "group.consumer.max.session.timeout.ms": "86400000",
    "group.consumer.session.timeout.ms": "86400000",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    **KEEP_OLD_RECORDS,
}


class AuthorizingKafka(KafkaCluster):
    """Apache Kafka with an authorizer. Anonymous clients may do everything; others log in at another listener."""

    def __init__(self, directory: Path, settings: Mapping[str, str] = SETTINGS) -> None:
        super().__init__(directory=directory, listeners={LISTENER: LISTENER}, config=settings)


class Side:
    """One of the brokers, with a connection of each user, and one that may do everything."""

    def __init__(self, stack: ExitStack, name: str, plaintext: str, sasl: str) -> None:
        self.name = name
        self._stack = stack
        self._sasl = sasl
        self.admin = stack.enter_context(Wire(plaintext))
        self._users: dict[str, Wire] = {}
        self._prepare()
        self._join()
        self._tokens = self._create_tokens()
        directories = self.admin.ask(DescribeLogDirsRequest(topics=[]), 4)
        self.log_dir = directories.results[0].log_dir

    def _prepare(self) -> None:
        topics = [
            CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in TOPICS
        ]
        self.admin.ask(CreateTopicsRequest(topics=topics), 7)
        wait_until(lambda: set(self._topic_ids()) >= set(TOPICS), CHANGE)
        for kind, keys in enumerate((GROUPS, TRANSACTIONAL_IDS)):
            wait_until(lambda kind=kind, keys=keys: self._finds(kind, list(keys)), CHANGE)  # type: ignore[misc]
        group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=GROUPS[0], topics=None)
        wait_until(lambda: self.admin.ask(OffsetFetchRequest(groups=[group]), 8).groups[0].error_code == 0, CHANGE)
        for transactional_id in TRANSACTIONAL_IDS:
            request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
            wait_until(lambda request=request: self.admin.ask(request, 5).error_code == 0, CHANGE)  # type: ignore[misc]

    def _join(self) -> None:
        """Give a group of the consumer protocol a member, which is subscribed to the topics."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=LIVE_GROUP,
            member_id="live",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=list(TOPICS),
            topic_partitions=[],
        )
        wait_until(lambda: self.admin.ask(request, 1).error_code == 0, CHANGE)

    def _create_tokens(self) -> dict[str, str]:
        """Create a delegation token for each owner; return its id by what stands for it."""
        root = self.user(ROOT)
        created = {}
        for owner, placeholder in zip(OWNERS, TOKENS):
            kind, name = owner.split(":")
            request = CreateDelegationTokenRequest(owner_principal_type=kind, owner_principal_name=name)
            created[placeholder] = root.ask(request, 3).token_id
        wait_until(lambda: len(root.ask(DescribeDelegationTokenRequest(owners=None), 3).tokens) == len(created), CHANGE)
        return created

    def _finds(self, kind: int, keys: list[str]) -> bool:
        found = self.admin.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=keys), 6)
        return not any(one.error_code for one in found.coordinators)

    @cached_property
    def ids(self) -> dict[str, UUID]:
        """The ids of the topics, which are the same in all requests of a run."""
        return self._topic_ids()

    def _topic_ids(self) -> dict[str, UUID]:
        found = self.admin.ask(MetadataRequest(topics=None, allow_auto_topic_creation=False), 12)
        return {topic.name: topic.topic_id for topic in found.topics}

    def user(self, name: str) -> Wire:
        """Return the connection of a user; a new one if the broker has closed it."""
        if name not in self._users:
            wire = self._users[name] = self._stack.enter_context(Wire(self._sasl))
            wire.log_in(name, name)
        return self._users[name]

    def ask(self, user: str, request: Message, version: int) -> object:
        """Return what a response shows of permissions, or that the broker has closed the connection."""
        wire = self.user(user)
        try:
            if isinstance(request, ProduceRequest) and request.acks == 0:
                # There is no response; an error closes the connection.
                wire.send(request, version)
                wire.ask(ApiVersionsRequest(), 0)
                return None
            return shown(wire.ask(request, version))
        except (EOFError, ConnectionError):
            del self._users[user]
            return CLOSED

    def set_acls(self, acls: list[CreateAclsRequest.AclCreation], seed: int) -> None:
        """Replace all ACLs, and wait until the broker obeys them."""
        everything = DeleteAclsRequest.DeleteAclsFilter(
            resource_type_filter=AclResourceType.ANY,
            resource_name_filter=None,
            pattern_type_filter=PatternType.ANY,
            principal_filter=None,
            host_filter=None,
            operation=AclOperation.ANY,
            permission_type=AclPermissionType.ANY,
        )
        self.admin.ask(DeleteAclsRequest(filters=[everything]), 3)
        for acl in acls:
            acl.resource_name = self._tokens.get(acl.resource_name, acl.resource_name)
        # It comes last, so that the others are in effect when the broker describes it.
        name = f"canary-{seed}"
        canary = CreateAclsRequest.AclCreation(
            resource_type=AclResourceType.TOPIC,
            resource_name=name,
            resource_pattern_type=PatternType.LITERAL,
            principal="User:nobody",
            host="*",
            operation=AclOperation.READ,
            permission_type=AclPermissionType.ALLOW,
        )
        results = self.admin.ask(CreateAclsRequest(creations=[*acls, canary]), 3).results
        assert [result.error_code for result in results] == [0] * (len(acls) + 1)
        asked = DescribeAclsRequest(
            resource_type_filter=AclResourceType.TOPIC,
            resource_name_filter=name,
            principal_filter=None,
            host_filter=None,
            operation=AclOperation.ANY,
            permission_type=AclPermissionType.ANY,
        )
        wait_until(lambda: self.admin.ask(asked, 3).resources, CHANGE)


def shown(value: Any) -> Any:
    """Return the fields of a response that must be equal, in an order of their own."""
    if isinstance(value, Struct):
        found = {}
        for field in fields_of(type(value)):
            one = getattr(value, field.name)
            if field.name == "nodes":
                # The nodes of a quorum; the controller of refbroker has no listener of its own.
                continue
            if isinstance(one, list | Struct):
                part = shown(one)
                if part:
                    found[field.name] = part
            elif field.name in SHOWN:
                found[field.name] = one
        if found.get("error_code") in REFUSALS:
            # refbroker names the permission that is missing, Kafka an object in its memory or nothing.
            found.pop("error_message", None)
        return found
    if isinstance(value, list):
        parts = [shown(one) for one in value if isinstance(one, Struct)]
        return sorted((one for one in parts if one and not _is_internal(one)), key=repr)
    return None


def _is_internal(part: dict[str, Any]) -> bool:
    return str(part.get("name", "")).startswith("__")
