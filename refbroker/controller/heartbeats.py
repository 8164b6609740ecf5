"""What follows from the heartbeats of brokers, and from heartbeats that do not come (KIP-631).

    plan = plan_heartbeat(cluster, liveness, request, now_ms)
    ...                                       # store and replay plan.records
    plan.settle(last_offset)
    plan.response

and every `Liveness.check_interval_ms`, until it returns None:

    records = fence_expired(cluster, liveness, now_ms)

Elsewhere: sessions and states (`liveness`), the records of each transition (`brokers`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kclient.protocol import Message
from kclient.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from refbroker.controller import brokers
from refbroker.controller.cluster import Cluster
from refbroker.controller.liveness import BrokerState, Liveness
from refbroker.metadata.versions import CORDONED_DIRECTORIES, DIRECTORIES

_RECORDS: Mapping[BrokerState, Callable[[Cluster, int], list[Message]]] = {
    BrokerState.FENCED: brokers.fence,
    BrokerState.SHUTDOWN_NOW: brokers.fence,
    BrokerState.UNFENCED: brokers.unfence,
    BrokerState.CONTROLLED_SHUTDOWN: brokers.begin_shutdown,
}
"""The records that bring a broker into a state."""


@dataclass(frozen=True, slots=True)
class HeartbeatPlan:
    """The outcome of a heartbeat.

    Attributes:
        records: to be stored; often none.
        response: to be sent when the records are stored.
        state: the state of the broker.
        broker: its liveness.
    """

    records: list[Message]
    response: BrokerHeartbeatResponse
    state: BrokerState
    broker_id: int
    liveness: Liveness

    def settle(self, last_offset: int) -> None:
        """Take note that the records are stored and replayed.

        Parameters:
            last_offset: of the metadata log.
        """
        if self.state is BrokerState.CONTROLLED_SHUTDOWN:
            self.liveness.begin_shutdown(self.broker_id, last_offset)


def plan_heartbeat(cluster: Cluster, liveness: Liveness, request: BrokerHeartbeatRequest, now_ms: int) -> HeartbeatPlan:
    """Extend the session of a broker, and return what follows from its heartbeat.

    Raises:
        StaleBrokerEpochError: the broker is not registered, or in another epoch.
    """
    node = request.broker_id
    registered = cluster.registered(node, request.broker_epoch)
    liveness.contact(node, request.broker_epoch, now_ms)
    broker = liveness.brokers[node]
    state = liveness.next_state(request, leads=cluster.index.leads(node))
    records = [] if state is broker.state else _RECORDS[state](cluster, node)
    broker.touch(fenced=state.is_fenced, metadata_offset=request.current_metadata_offset)
    if cluster.image.metadata_version >= DIRECTORIES:
        records += brokers.take_offline(cluster, registered, request.offline_log_dirs)
    if cluster.image.metadata_version >= CORDONED_DIRECTORIES:
        records += brokers.cordon(registered, request.cordoned_log_dirs)
    response = BrokerHeartbeatResponse(
        is_caught_up=request.current_metadata_offset >= broker.registration_offset,
        is_fenced=state.is_fenced,
        should_shut_down=state is BrokerState.SHUTDOWN_NOW,
    )
    return HeartbeatPlan(records, response, state, node, liveness)


def fence_expired(cluster: Cluster, liveness: Liveness, now_ms: int) -> list[Message] | None:
    """Return the records that fence one broker whose session has expired; None after the last one."""
    node = liveness.expired(now_ms)
    if node is None:
        return None
    records = brokers.fence(cluster, node)
    liveness.brokers[node].fenced = True
    return records
