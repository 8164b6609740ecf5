"""The cluster and its brokers, and the resources that have settings; what old brokers report of them."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.admin.cluster import describe_cluster, unregister_broker
from kclient.admin.config_resources import list_client_metrics_resources, list_config_resources
from kclient.admin.configs import ConfigResource, ResourceType
from kclient.errors import (
    BrokerIdNotRegisteredError,
    ClusterAuthorizationError,
    RequestTimedOutError,
    UnsupportedVersionError,
)
from kclient.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kclient.protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from kclient.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from kclient.types import Node
from tests.kclient.admin.scripted import Cluster, ScriptedCore, finished, soon


def brokers(node: int, request: DescribeClusterRequest) -> DescribeClusterResponse:
    kind = DescribeClusterResponse.DescribeClusterBroker
    found = [kind(broker_id=2, host="b", port=2, rack="r"), kind(broker_id=1, host="a", port=1)]
    if request.include_fenced_brokers:
        found.append(kind(broker_id=3, host="c", port=3, is_fenced=True))
    return DescribeClusterResponse(cluster_id="the cluster", controller_id=2, brokers=found)


def test_a_cluster_has_brokers_by_id_and_fenced_ones_on_request() -> None:
    core = ScriptedCore(Cluster(DescribeCluster=brokers))
    found = finished(describe_cluster(core, False, soon()))
    assert (found.cluster_id, found.controller_id) == ("the cluster", 2)
    assert found.brokers == {1: Node(1, "a", 1), 2: Node(2, "b", 2, "r")}
    with_fenced = finished(describe_cluster(core, True, soon()))
    assert [node.node_id for node in with_fenced.brokers.values() if node.is_fenced] == [3]


@pytest.mark.parametrize("version", [-1, 1])
def test_an_old_broker_cannot_list_fenced_brokers(version: int) -> None:
    core = ScriptedCore(Cluster(DescribeCluster=brokers), newest={DescribeClusterRequest: version})
    with pytest.raises(UnsupportedVersionError, match=r"since Apache Kafka 4\.0"):
        finished(describe_cluster(core, True, soon()))
    assert list(finished(describe_cluster(core, False, soon())).brokers) == [1, 2]


def unregistering(*codes: int) -> ScriptedCore:
    left = list(codes)
    return ScriptedCore(
        Cluster(UnregisterBroker=lambda node, request: UnregisterBrokerResponse(error_code=left.pop(0)))
    )


def test_a_broker_is_unregistered_when_the_controller_has_the_time() -> None:
    core = unregistering(RequestTimedOutError.code, 41, 0)
    finished(unregister_broker(core, 7, soon()))
    requests = [request for _, request, _ in core.asked if isinstance(request, UnregisterBrokerRequest)]
    assert [request.broker_id for request in requests] == [7, 7, 7]


def test_a_broker_that_is_not_registered_is_an_error() -> None:
    with pytest.raises(BrokerIdNotRegisteredError, match="describe_cluster shows those that are registered"):
        finished(unregister_broker(unregistering(BrokerIdNotRegisteredError.code), 7, soon()))


def resources(node: int, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    kind = ListConfigResourcesResponse.ConfigResource
    wanted = set(request.resource_types) or {2, 4, 16, 99}
    names = {2: ["b", "a"], 4: ["1"], 16: ["m"], 99: ["of a later version"]}
    return ListConfigResourcesResponse(
        config_resources=[
            kind(resource_name=name, resource_type=number) for number in sorted(wanted) for name in names[number]
        ]
    )


def listed(core: ScriptedCore, types: Any = ()) -> Any:
    return finished(list_config_resources(core, types, soon("list_config_resources")))


def test_resources_are_listed_by_type_and_name() -> None:
    core = ScriptedCore(Cluster(ListConfigResources=resources))
    topics = [ConfigResource.topic("a"), ConfigResource.topic("b")]
    metrics = ConfigResource(ResourceType.CLIENT_METRICS, "m")
    assert listed(core) == [*topics, ConfigResource.broker(1), metrics]
    assert listed(core, ResourceType.TOPIC) == topics
    assert listed(core, [ResourceType.BROKER, ResourceType.CLIENT_METRICS]) == [ConfigResource.broker(1), metrics]
    assert finished(list_client_metrics_resources(core, soon())) == ["m"]


def test_an_old_broker_lists_client_metrics_only() -> None:
    def metrics(node: int, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
        kind = ListConfigResourcesResponse.ConfigResource
        return ListConfigResourcesResponse(config_resources=[kind(resource_name="m")])

    core = ScriptedCore(Cluster(ListConfigResources=metrics), newest={ListConfigResourcesRequest: 0})
    assert finished(list_client_metrics_resources(core, soon())) == ["m"]
    for types in ((), ResourceType.TOPIC):
        with pytest.raises(UnsupportedVersionError, match=r"since Apache Kafka 4\.1"):
            listed(core, types)


def test_a_refusal_to_list_is_raised() -> None:
    answer = ListConfigResourcesResponse(error_code=ClusterAuthorizationError.code)
    with pytest.raises(ClusterAuthorizationError):
        listed(ScriptedCore(Cluster(ListConfigResources=lambda node, request: answer)))
