"""What several handlers put into their responses: error codes, permitted operations, hints at leaders."""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import Any

from kclient.errors import (
    FencedLeaderEpochError,
    InvalidProducerEpochError,
    KafkaError,
    NotLeaderOrFollowerError,
    ProducerFencedError,
)
from kclient.protocol import Message
from kclient.protocol.acls import AclResourceType
from refbroker.metadata.image import ClusterImage, PartitionState
from refbroker.runtime.addresses import java_address
from refbroker.runtime.error_codes import code_of
from refbroker.security.authorizer import Access
from refbroker.security.permissions import DESCRIBE_CLUSTER

NOT_ASKED = -(2**31)
"""The value of authorizedOperations in a response to a client that has not asked for them."""

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


def transaction_code(error: KafkaError, *, knows_fenced: bool) -> int:
    """Return the error code for the response to a transactional producer.

    Parameters:
        knows_fenced: whether the version of the response has PRODUCER_FENCED; older clients get INVALID_PRODUCER_EPOCH.
    """
    if isinstance(error, ProducerFencedError) and not knows_fenced:
        return code_of(InvalidProducerEpochError())
    return code_of(error)


def cluster_operations(access: Access) -> int:
    """Return the operations on the cluster that a client may carry out; none if it may not describe the cluster."""
    return access.operations(AclResourceType.CLUSTER) if access.allows(DESCRIBE_CLUSTER) else 0


def endpoint_of(image: ClusterImage, broker_id: int, listener: str) -> tuple[str, int] | None:
    """Return the host and port at which the clients of a listener reach a broker.

    Parameters:
        listener: the name of the listener that the client is connected to.

    Returns:
        None if the broker does not exist, or advertises no address for this listener.
    """
    broker = image.brokers.get(broker_id)
    return None if broker is None else broker.endpoints.get(listener)


@lru_cache(maxsize=1024)
def host_of(peer: str) -> str:
    """Return the address of a connection's peer as Java writes it."""
    host = peer.rpartition(":")[0]
    return f"/{java_address(host) or host or peer}"


class LaterAnswer:
    """A response that may be given later; only the first one counts.

    Attributes:
        future: awaited by the connection, which cancels it when the client disconnects.
    """

    def __init__(self) -> None:
        self.future: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()

    def give(self, answer: Message) -> None:
        """Set the response, unless there is one already or the client has disconnected."""
        if not self.future.done():
            self.future.set_result(answer)


class LeaderHints:
    """The current leaders of partitions that a client requested from the wrong broker (KIP-951).

    Parameters:
        image: the state of the cluster.
        listener: the name of the listener that the client is connected to.
        node_type: the struct of an endpoint in the response.
        wanted: whether the version of the response has fields for them.
    """

    def __init__(self, image: ClusterImage, listener: str, node_type: Any, *, wanted: bool) -> None:
        self._image = image
        self._listener = listener
        self._node_type = node_type
        self._wanted = wanted
        self._leaders: dict[int, tuple[str, int]] = {}

    def add(self, error: KafkaError, state: PartitionState | None) -> tuple[int, int] | None:
        """Return the leader and its epoch, if the client can use them with this error; record the leader's endpoint."""
        if (
            not self._wanted
            or state is None
            or not isinstance(error, NotLeaderOrFollowerError | FencedLeaderEpochError)
        ):
            return None
        endpoint = endpoint_of(self._image, state.leader, self._listener)
        if endpoint is not None:
            self._leaders[state.leader] = endpoint
        return state.leader, state.leader_epoch

    def endpoints(self) -> list[Any]:
        """Return the endpoints of the leaders that were returned."""
        if not self._leaders:
            return []
        return [
            self._node_type(node_id=node, host=host, port=port, rack=self._image.brokers[node].rack)
            for node, (host, port) in sorted(self._leaders.items())
        ]
