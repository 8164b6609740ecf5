"""The APIs of ACLs, as a broker without an authorizer answers them."""

from __future__ import annotations

import pytest

from kclient.errors import SecurityDisabledError
from kclient.protocol.messages.create_acls import CreateAclsRequest
from kclient.protocol.messages.delete_acls import DeleteAclsRequest
from kclient.protocol.messages.describe_acls import DescribeAclsRequest
from tests.support.broker_harness import Harness

TOPIC, LITERAL, READ, ALLOW = 2, 3, 3, 3

CREATION = CreateAclsRequest.AclCreation(
    resource_type=TOPIC,
    resource_name="orders",
    resource_pattern_type=LITERAL,
    principal="User:anne",
    host="*",
    operation=READ,
    permission_type=ALLOW,
)
FILTER = DeleteAclsRequest.DeleteAclsFilter(
    resource_type_filter=TOPIC, resource_name_filter="orders", operation=READ, permission_type=ALLOW
)


async def test_acls_are_not_described_without_an_authorizer(harness: Harness) -> None:
    answer = harness.send(DescribeAclsRequest(resource_type_filter=TOPIC, operation=READ, permission_type=ALLOW), 3)
    assert (answer.error_code, answer.error_message) == (
        SecurityDisabledError.code,
        "No Authorizer is configured on the broker",
    )
    assert answer.resources == []


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_each_acl_that_is_to_be_created_is_refused_without_an_authorizer(harness: Harness, version: int) -> None:
    answer = harness.send(CreateAclsRequest(creations=[CREATION, CREATION]), version)
    refused = (SecurityDisabledError.code, "No Authorizer is configured.")
    assert [(one.error_code, one.error_message) for one in answer.results] == [refused, refused]


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_each_filter_of_acls_to_delete_is_refused_without_an_authorizer(harness: Harness, version: int) -> None:
    answer = harness.send(DeleteAclsRequest(filters=[FILTER, FILTER]), version)
    refused: tuple[int, str, list[object]] = (SecurityDisabledError.code, "No Authorizer is configured.", [])
    assert [(one.error_code, one.error_message, one.matching_acls) for one in answer.filter_results] == [refused] * 2
