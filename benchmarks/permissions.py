"""The cost of an authorizer and of quotas: refbroker with 1,000 ACLs and quotas for all clients, beside one without.

The ACLs allow the client by a prefix of its topics' names and by "*", and most are for others. No quota is reached, so
that clients are metered and never throttled.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kclient import Admin
from kclient.admin import AclBinding, AclOperation, AclResourceType, PatternType, QuotaEntity
from tests.support.broker_process import BrokerProcess

ACLS = 1000
CLIENT = "User:ANONYMOUS"
UNREACHED = 1e12
TITLE = f"refbroker with {ACLS:,} ACLs and quotas"
_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # Nobody could create the first ACL otherwise.
    "allow.everyone.if.no.acl.found": "true",
}


@contextmanager
def guarded_refbroker(directory: Path) -> Iterator[tuple[str, int]]:
    """Start a refbroker with ACLs and quotas; yield its bootstrap servers and process id."""
    with BrokerProcess(directory, settings=_SETTINGS) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_acls(_acls())
            quotas = {"producer_byte_rate": UNREACHED, "consumer_byte_rate": UNREACHED, "request_percentage": UNREACHED}
            admin.alter_client_quotas({QuotaEntity(user=""): dict(quotas), QuotaEntity(client_id=""): dict(quotas)})
        yield broker.bootstrap_servers, broker.pid


def _acls() -> list[AclBinding]:
    everything = [
        AclBinding(AclResourceType.GROUP, "*", CLIENT, AclOperation.ALL),
        AclBinding(AclResourceType.CLUSTER, "kafka-cluster", CLIENT, AclOperation.ALL),
        AclBinding(AclResourceType.TRANSACTIONAL_ID, "*", CLIENT, AclOperation.ALL),
        AclBinding(AclResourceType.TOPIC, "bench-", CLIENT, AclOperation.ALL, pattern_type=PatternType.PREFIXED),
    ]
    others = [
        AclBinding(
            AclResourceType.TOPIC,
            f"bench-{number:x}"[: 7 + number % 4],
            f"User:other-{number}",
            AclOperation.WRITE,
            pattern_type=PatternType.PREFIXED,
        )
        for number in range(ACLS - len(everything))
    ]
    return everything + others
