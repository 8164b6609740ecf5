"""The active controller as the parts of the same node ask it: without a connection, and without waiting.

The requests are those that other nodes send, and are carried out by the same functions. Elsewhere: the interface
(`refbroker.peers.controller_client.ControllerClient`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from kclient.errors import KafkaError
from kclient.protocol import Message
from kclient.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kclient.protocol.messages.alter_partition import AlterPartitionRequest
from kclient.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from kclient.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from kclient.protocol.messages.broker_registration import BrokerRegistrationRequest
from kclient.protocol.messages.create_topics import CreateTopicsRequest
from refbroker.controller.active import ActiveController
from refbroker.controller.broker_requests import (
    alter_partition,
    assign_replicas_to_dirs,
    heartbeat,
    register_broker,
)
from refbroker.controller.change import Change
from refbroker.controller.controller import Controller
from refbroker.controller.producer_ids import allocate_producer_ids
from refbroker.controller.topic_creation import plan_creation


def _create_topics(controller: Controller, request: CreateTopicsRequest) -> Change:
    records, response = plan_creation(controller, request)
    return Change(records, lambda: response)


_PLANS: Mapping[type[Message], Callable[[ActiveController, Any], Change]] = {
    AllocateProducerIdsRequest: allocate_producer_ids,
    AlterPartitionRequest: alter_partition,
    AssignReplicasToDirsRequest: assign_replicas_to_dirs,
    BrokerHeartbeatRequest: heartbeat,
    BrokerRegistrationRequest: register_broker,
    CreateTopicsRequest: _create_topics,
}


class DirectControllerClient:
    """The controller of this node.

    Parameters:
        controller: the controller.
    """

    def __init__(self, controller: ActiveController) -> None:
        self._controller = controller

    def ask(self, request: Message) -> asyncio.Future[Any]:
        """Carry out a request, and return a future that is done."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        try:
            change = _PLANS[type(request)](self._controller, request)
            future.set_result(self._controller.commit(change))
        except KafkaError as error:
            future.set_exception(error)
        return future
