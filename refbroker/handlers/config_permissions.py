"""The permissions that handlers of settings need, which depend on the kind of resource.

Topics and groups have permissions of their own; brokers, their loggers and client metrics belong to the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kclient.protocol import Message
from kclient.protocol.acls import CLUSTER_NAME
from refbroker.controller.configs import Edit, check_request
from refbroker.metadata.image import CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from refbroker.security.authorizer import Access
from refbroker.security.permissions import (
    ALTER_CLUSTER_CONFIGS,
    ALTER_GROUP_CONFIGS,
    ALTER_TOPIC_CONFIGS,
    DESCRIBE_CLUSTER_CONFIGS,
    DESCRIBE_GROUP_CONFIGS,
    DESCRIBE_TOPIC_CONFIGS,
    Permission,
)

_DESCRIBING = {TOPIC_RESOURCE: DESCRIBE_TOPIC_CONFIGS, GROUP_RESOURCE: DESCRIBE_GROUP_CONFIGS}
_ALTERING = {TOPIC_RESOURCE: ALTER_TOPIC_CONFIGS, GROUP_RESOURCE: ALTER_GROUP_CONFIGS}


def describing(kind: int, name: str) -> tuple[Permission, str]:
    """Return what describing the settings of a resource needs: the permission, and the name it is for."""
    found = _DESCRIBING.get(kind)
    return (DESCRIBE_CLUSTER_CONFIGS, CLUSTER_NAME) if found is None else (found, name)


def altering(kind: int, name: str) -> tuple[Permission, str]:
    """Return what altering the settings of a resource needs: the permission, and the name it is for."""
    found = _ALTERING.get(kind)
    return (ALTER_CLUSTER_CONFIGS, CLUSTER_NAME) if found is None else (found, name)


def plan_if_allowed(
    access: Access, kind: int, name: str, edits: Sequence[Edit], plan: Callable[[], list[Message]]
) -> list[Message]:
    """Return the records of a change of settings, if the client may alter them.

    As in Kafka, the settings of a broker are validated before the permission is checked, others after it, so that a
    client without it does not learn whether a topic exists.

    Parameters:
        plan: returns the records.

    Raises:
        AuthorizationError: the client may not alter the settings.
        KafkaError: what `plan` raises.
    """
    check_request(edits)
    comes_first = kind not in (TOPIC_RESOURCE, GROUP_RESOURCE, CLIENT_METRICS_RESOURCE)
    records = plan() if comes_first else []
    refusal = access.refusal(*altering(kind, name))
    if refusal is not None:
        raise refusal
    return records if comes_first else plan()
