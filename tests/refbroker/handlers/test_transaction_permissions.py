"""The permissions of transactions (KIP-98): each request without each of its permissions, and with all of them.

The last tests are attacks on transactions of others. Elsewhere: the same requests beside Apache Kafka
(`tests/interop/test_authorizer_differences`), and what clients make of the errors (`tests/integration/test_acls`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
import pytest_asyncio

from kclient.protocol.acls import AclPermissionType, AclResourceType, PatternType
from kclient.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kclient.protocol.messages.records.metadata_log import AccessControlEntryRecord
from refbroker.security.authorizer import STANDARD_AUTHORIZER
from refbroker.security.permissions import (
    ALTER_CLUSTER,
    CLUSTER_ACTION,
    IDEMPOTENT_WRITE,
    READ_GROUP,
    READ_TOPIC,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
    Permission,
)
from refbroker.security.principals import Principal
from tests.support.broker_harness import batch
from tests.support.raw_producer import RawProducer, error_codes, produce_request
from tests.support.transaction_harness import DATA, ID, TransactionHarness
from tests.support.wire import fetch_request

ROOT, EVE = Principal("User", "root"), Principal("User", "eve")
GROUP, OTHER_TOPIC, LOG = "g", "bills", "__transaction_state"
NONE, INVALID_TOPIC, TOPIC, GROUP_REFUSED, CLUSTER, NOT_ATTEMPTED, TRANSACTIONAL_ID = 0, 17, 29, 30, 31, 55, 53
NAMES = {
    AclResourceType.TOPIC: DATA,
    AclResourceType.GROUP: GROUP,
    AclResourceType.CLUSTER: "kafka-cluster",
    AclResourceType.TRANSACTIONAL_ID: ID,
}


class AuthorizingHarness(TransactionHarness):
    """A broker whose clients are `eve`, who may do what ACLs allow, or within `as_root` somebody who may do all."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, authorizer_class_name=STANDARD_AUTHORIZER, super_users=f"{ROOT};User:ANONYMOUS")
        self.create(OTHER_TOPIC)
        self.connection.principal = EVE

    def allow(self, *permissions: Permission, **names: str) -> None:
        """Allow eve operations on the resources of the tests."""
        for operation, resource_type in permissions:
            record = AccessControlEntryRecord(
                id=uuid4(),
                resource_type=resource_type,
                resource_name=names.get(resource_type.name.lower(), NAMES[resource_type]),
                pattern_type=PatternType.LITERAL,
                principal=str(EVE),
                host="*",
                operation=operation,
                permission_type=AclPermissionType.ALLOW,
            )
            self.broker.controller.append([record])

    def owner(self) -> RawProducer:
        """Return the producer that the transactional id belongs to; its requests are those of root."""

        def ask(request: Any, version: int) -> Any:
            self.connection.principal = ROOT
            try:
                return self.send(request, version)
            finally:
                self.connection.principal = EVE

        producer = RawProducer(ask, ID)
        assert producer.init().error_code == NONE
        return producer

    def eve(self, *, of: RawProducer | None = None) -> RawProducer:
        """Return a producer of eve, who may know the producer id and the epoch of another one."""
        producer = RawProducer(self.send, ID)
        if of is not None:
            producer.producer_id, producer.epoch = of.producer_id, of.epoch
        return producer

    def offsets(self) -> tuple[int, int]:
        """Return the last stable offset and the high watermark of the topic."""
        log = self.log(DATA)
        return log.last_stable_offset, log.high_watermark


@pytest_asyncio.fixture
async def harness(tmp_path: Path) -> AsyncIterator[AuthorizingHarness]:
    made = AuthorizingHarness(tmp_path / "data")
    yield made
    made.close()


class Cell(NamedTuple):
    """A request, the permissions that it needs in the order in which they are checked, and the error without each."""

    ask: Callable[[AuthorizingHarness], list[int]]
    needs: list[tuple[Permission, list[int]]]
    allowed: list[int]


def init(harness: AuthorizingHarness) -> list[int]:
    return [harness.eve().init().error_code]


def init_without_id(harness: AuthorizingHarness) -> list[int]:
    return [RawProducer(harness.send, None).init().error_code]


def add_partitions(harness: AuthorizingHarness) -> list[int]:
    owner = harness.owner()
    return harness.add((owner.producer_id, owner.epoch), [(DATA, 0), (DATA, 1)])


def add_partitions_as_a_broker(harness: AuthorizingHarness) -> list[int]:
    owner = harness.owner()
    transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
        transactional_id=ID,
        producer_id=owner.producer_id,
        producer_epoch=owner.epoch,
        topics=[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=DATA, partitions=[0])],
    )
    answer = harness.send(AddPartitionsToTxnRequest(transactions=[transaction]), 5)
    # One error for the request, or one for each partition.
    return [answer.error_code, *error_codes(answer.results_by_transaction)]


def add_offsets(harness: AuthorizingHarness) -> list[int]:
    return [harness.eve(of=harness.owner()).add_offsets(GROUP).error_code]


def commit_offsets(harness: AuthorizingHarness) -> list[int]:
    return harness.eve(of=harness.owner()).commit_offsets(GROUP, {(DATA, 0): 1})


def end(harness: AuthorizingHarness) -> list[int]:
    owner = harness.owner()
    assert owner.send(DATA, b"v").error_code == NONE
    return [harness.eve(of=owner).end(commit=True).error_code]


def produce(harness: AuthorizingHarness) -> list[int]:
    return [harness.eve(of=harness.owner()).send(DATA, b"v").error_code]


def write_markers(harness: AuthorizingHarness) -> list[int]:
    owner = harness.owner()
    assert owner.send(DATA, b"v").error_code == NONE
    return harness.eve(of=owner).mark((DATA, 0), coordinator_epoch=0)


CELLS = {
    "InitProducerId": Cell(init, [(WRITE_TRANSACTIONAL_ID, [TRANSACTIONAL_ID])], [NONE]),
    "InitProducerId-idempotent-on-the-cluster": Cell(init_without_id, [(IDEMPOTENT_WRITE, [CLUSTER])], [NONE]),
    "InitProducerId-idempotent-on-any-topic": Cell(init_without_id, [(WRITE_TOPIC, [CLUSTER])], [NONE]),
    "AddPartitionsToTxn": Cell(
        add_partitions,
        [(WRITE_TRANSACTIONAL_ID, [TRANSACTIONAL_ID] * 2), (WRITE_TOPIC, [TOPIC] * 2)],
        [NONE] * 2,
    ),
    "AddPartitionsToTxn-of-a-broker": Cell(add_partitions_as_a_broker, [(CLUSTER_ACTION, [CLUSTER])], [NONE]),
    "AddOffsetsToTxn": Cell(
        add_offsets, [(WRITE_TRANSACTIONAL_ID, [TRANSACTIONAL_ID]), (READ_GROUP, [GROUP_REFUSED])], [NONE]
    ),
    "TxnOffsetCommit": Cell(
        commit_offsets,
        [(WRITE_TRANSACTIONAL_ID, [TRANSACTIONAL_ID]), (READ_GROUP, [GROUP_REFUSED]), (READ_TOPIC, [TOPIC])],
        [NONE],
    ),
    "EndTxn": Cell(end, [(WRITE_TRANSACTIONAL_ID, [TRANSACTIONAL_ID])], [NONE]),
    "Produce": Cell(produce, [(WRITE_TRANSACTIONAL_ID, [TRANSACTIONAL_ID]), (WRITE_TOPIC, [TOPIC])], [NONE]),
    "WriteTxnMarkers-CLUSTER_ACTION": Cell(write_markers, [(CLUSTER_ACTION, [CLUSTER])], [NONE]),
    "WriteTxnMarkers-ALTER": Cell(write_markers, [(ALTER_CLUSTER, [CLUSTER])], [NONE]),
}


@pytest.mark.parametrize(
    ("cell", "missing"),
    [
        pytest.param(cell, index, id=f"{name}-without-{need[0].operation.name}-{need[0].resource_type.name}")
        for name, cell in CELLS.items()
        for index, need in enumerate(cell.needs)
    ],
)
async def test_a_request_without_one_of_its_permissions_is_refused(
    harness: AuthorizingHarness, cell: Cell, missing: int
) -> None:
    harness.allow(*(permission for index, (permission, _) in enumerate(cell.needs) if index != missing))
    assert cell.ask(harness) == cell.needs[missing][1]


@pytest.mark.parametrize("cell", [pytest.param(cell, id=name) for name, cell in CELLS.items()])
async def test_a_request_with_its_permissions_is_carried_out(harness: AuthorizingHarness, cell: Cell) -> None:
    harness.allow(*(permission for permission, _ in cell.needs))
    assert cell.ask(harness) == cell.allowed


@pytest.mark.parametrize("cell", [pytest.param(cell, id=name) for name, cell in CELLS.items()])
async def test_without_any_permission_the_first_one_that_is_missing_is_reported(
    harness: AuthorizingHarness, cell: Cell
) -> None:
    assert cell.ask(harness) == cell.needs[0][1]


async def test_a_refused_topic_keeps_the_others_from_being_added(harness: AuthorizingHarness) -> None:
    harness.allow(WRITE_TRANSACTIONAL_ID, WRITE_TOPIC)
    owner = harness.owner()
    mine = (owner.producer_id, owner.epoch)
    assert harness.add(mine, [(DATA, 0), (OTHER_TOPIC, 0)]) == [NOT_ATTEMPTED, TOPIC]
    assert harness.state().partitions == set()


@pytest.mark.parametrize("topic", ["__transaction_state", "__consumer_offsets"])
async def test_nobody_writes_to_internal_topics(harness: AuthorizingHarness, topic: str) -> None:
    harness.connection.principal = ROOT
    size = harness.log(topic).log_end_offset
    assert error_codes(harness.send(produce_request(topic, batch(b"v")), 11)) == [INVALID_TOPIC]
    owner = harness.owner()
    harness.connection.principal = ROOT
    assert harness.add((owner.producer_id, owner.epoch), [(topic, 0)]) == [TOPIC]
    if topic != LOG:
        assert harness.log(topic).log_end_offset == size


async def test_the_transaction_log_is_read_with_read_alone(harness: AuthorizingHarness) -> None:
    harness.owner()
    assert harness.send(fetch_request(LOG), 11).responses[0].partitions[0].error_code == TOPIC
    harness.allow(READ_TOPIC, topic=LOG)
    (part,) = harness.send(fetch_request(LOG), 11).responses[0].partitions
    assert (part.error_code, len(part.records or b"") > 0) == (NONE, True)


# Attacks


async def test_nobody_keeps_a_transaction_of_another_open(harness: AuthorizingHarness) -> None:
    """The endless transaction: Eve, who may write to the topic, sends records in the name of the owner."""
    harness.allow(WRITE_TOPIC, IDEMPOTENT_WRITE)
    owner = harness.owner()
    assert owner.send(DATA, b"v").error_code == NONE
    assert owner.end(commit=True).error_code == NONE
    assert harness.offsets() == (2, 2)
    eve = harness.eve(of=owner)
    # With the id of the owner, without one, and with one of her own, to which she has no right either.
    for transactional_id in (ID, None, "eve"):
        eve.transactional_id = transactional_id
        for version in (3, 11, 12):
            assert eve.send(DATA, b"x", version=version, is_transactional=True).error_code == TRANSACTIONAL_ID
    assert harness.offsets() == (2, 2)


async def test_nobody_begins_ends_or_fences_a_transaction_of_another(harness: AuthorizingHarness) -> None:
    harness.allow(WRITE_TOPIC, READ_TOPIC, READ_GROUP, IDEMPOTENT_WRITE)
    owner = harness.owner()
    assert owner.send(DATA, b"v").error_code == NONE
    assert harness.offsets() == (0, 1)
    eve = harness.eve(of=owner)
    assert eve.end(commit=True).error_code == TRANSACTIONAL_ID
    assert eve.end(commit=False).error_code == TRANSACTIONAL_ID
    assert eve.mark((DATA, 0), commit=True) == [CLUSTER]
    assert eve.init().error_code == TRANSACTIONAL_ID
    assert eve.add_offsets(GROUP).error_code == TRANSACTIONAL_ID
    assert eve.commit_offsets(GROUP, {(DATA, 0): 1}) == [TRANSACTIONAL_ID]
    assert error_codes(eve.add(OTHER_TOPIC)) == [TRANSACTIONAL_ID]
    assert harness.offsets() == (0, 1)
    assert owner.end(commit=True).error_code == NONE
    assert harness.offsets() == (2, 2)


async def test_a_transaction_of_ones_own_does_not_reach_topics_of_others(harness: AuthorizingHarness) -> None:
    """Eve may use the transactional id, but may not write to the topic, and so cannot hold up its readers."""
    harness.allow(WRITE_TRANSACTIONAL_ID)
    harness.allow(WRITE_TOPIC, topic=OTHER_TOPIC)
    eve = harness.eve()
    assert eve.init().error_code == NONE
    assert eve.send(DATA, b"x").error_code == TOPIC
    assert error_codes(eve.add(DATA)) == [TOPIC]
    assert eve.send(OTHER_TOPIC, b"mine").error_code == NONE
    assert harness.offsets() == (0, 0)
