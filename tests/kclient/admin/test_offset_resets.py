"""Resets that are refused before anything is committed."""

from __future__ import annotations

import pytest

from kclient.admin.offset_resets import OffsetReset, reset_group_offsets
from kclient.errors import GroupNotEmptyError
from kclient.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kclient.protocol.messages.describe_groups import DescribeGroupsResponse
from tests.kclient.admin.scripted import Cluster, ScriptedCore, finished, soon


@pytest.mark.parametrize(
    ("members", "advice"), [(2, "has 2 members; stop them"), (0, "has 0 members; try again when its rebalance")]
)
def test_a_group_in_a_rebalance_says_what_to_do(members: int, advice: str) -> None:
    group = DescribeGroupsResponse.DescribedGroup(
        group_id="g",
        group_state="PreparingRebalance",
        protocol_type="consumer",
        members=[DescribeGroupsResponse.DescribedGroupMember(member_id=str(number)) for number in range(members)],
    )
    cluster = Cluster(DescribeGroups=lambda node, request: DescribeGroupsResponse(groups=[group]))
    core = ScriptedCore(cluster, newest={ConsumerGroupDescribeRequest: -1})
    with pytest.raises(GroupNotEmptyError, match=advice):
        finished(reset_group_offsets(core, "g", OffsetReset.earliest(), None, False, soon()))
