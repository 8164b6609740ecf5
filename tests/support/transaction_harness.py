"""A broker without sockets that coordinates transactions: shortcuts for the requests, and the records of its logs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from kclient.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kclient.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kclient.protocol.messages.end_txn import EndTxnRequest
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest
from kclient.protocol.messages.init_producer_id import InitProducerIdRequest
from kclient.protocol.messages.produce import ProduceRequest
from kclient.protocol.messages.records.metadata_log import FeatureLevelRecord
from kclient.protocol.messages.records.transaction_state import TransactionLogKey, TransactionLogValue
from kclient.records import COMMIT, parse_control_record, read_batches
from refbroker.coordinators.records import decode_record
from refbroker.coordinators.transactions.metadata import TransactionMetadata
from refbroker.coordinators.transactions.shard import TransactionShard
from refbroker.log import Files, PartitionLog
from tests.support.broker_harness import Harness, batch

TOPIC = "__transaction_state"
ID = "payments"
DATA = "t"

Identity = tuple[int, int]


class TransactionHarness(Harness):
    """A broker with `__transaction_state` of one partition and a topic of two, `t`.

    Parameters:
        version: the transaction version: the finalized level of the feature, and the version that clients use.
    """

    def __init__(self, directory: Path, *, version: int = 2, files: Files | None = None, **settings: str) -> None:
        self.version = version
        few = {"transaction_state_log_num_partitions": "1", "offsets_topic_num_partitions": "1"}
        super().__init__(directory, files=files, **{**few, **settings})
        self.finalize(version)
        self.create(DATA, 2)
        for kind in (0, 1):
            answer = self.send(FindCoordinatorRequest(key_type=kind, coordinator_keys=[ID]), 6)
            assert answer.coordinators[0].error_code == 0

    def finalize(self, version: int) -> None:
        """Finalize `transaction.version` at a level."""
        self.broker.controller.append([FeatureLevelRecord(name="transaction.version", feature_level=version)])

    def hold_markers(self) -> None:
        """Prevent markers in the first partition of the topic: too few replicas are in sync."""
        self.assign(DATA, 7)
        self.configure(DATA, "2")

    def release_markers(self) -> None:
        self.configure(DATA, "1")

    def configure(self, topic: str, min_insync: str) -> None:
        from kclient.protocol.messages.records.metadata_log import ConfigRecord
        from refbroker.metadata.image import TOPIC_RESOURCE

        self.broker.controller.append(
            [
                ConfigRecord(
                    resource_type=TOPIC_RESOURCE, resource_name=topic, name="min.insync.replicas", value=min_insync
                )
            ]
        )

    # Requests

    def init(
        self, has: Identity = (-1, -1), *, name: str | None = ID, timeout_ms: int = 60_000, api: int = 5
    ) -> tuple[int, Identity]:
        """Initialize a producer id; return the error code and the identity."""
        request = InitProducerIdRequest(
            transactional_id=name, transaction_timeout_ms=timeout_ms, producer_id=has[0], producer_epoch=has[1]
        )
        answer = self.send(request, api)
        return answer.error_code, (answer.producer_id, answer.producer_epoch)

    def identity(self, name: str = ID, timeout_ms: int = 60_000) -> Identity:
        """Return the identity of a new producer."""
        error, identity = self.init(name=name, timeout_ms=timeout_ms)
        assert error == 0
        return identity

    def add(
        self, who: Identity, partitions: Iterable[tuple[str, int]] = ((DATA, 0),), *, name: str = ID, api: int = 3
    ) -> list[int]:
        """Add partitions as a client does before transaction version 2; return the error codes of the partitions."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=who[0],
            v3_and_below_producer_epoch=who[1],
            v3_and_below_topics=_topics(partitions),
        )
        answer = self.send(request, api)
        return [
            one.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        ]

    def ask(
        self,
        who: Identity,
        partitions: Iterable[tuple[str, int]] = ((DATA, 0),),
        *,
        verify_only: bool,
        name: str = ID,
    ) -> list[int]:
        """Add partitions as a broker does for one transaction; return the error codes of the partitions."""
        one = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
            transactional_id=name,
            producer_id=who[0],
            producer_epoch=who[1],
            verify_only=verify_only,
            topics=_topics(partitions),
        )
        [result] = self.send(AddPartitionsToTxnRequest(transactions=[one]), 5).results_by_transaction
        assert result.transactional_id == name
        return [one.partition_error_code for topic in result.topic_results for one in topic.results_by_partition]

    def add_offsets(self, who: Identity, *, group: str = "g", name: str = ID, api: int = 4) -> int:
        request = AddOffsetsToTxnRequest(
            transactional_id=name, producer_id=who[0], producer_epoch=who[1], group_id=group
        )
        code: int = self.send(request, api).error_code
        return code

    def end(self, who: Identity, *, commit: bool, name: str = ID, api: int | None = None) -> tuple[int, Identity]:
        """End a transaction; return the error code and the identity for the next transaction."""
        request = EndTxnRequest(transactional_id=name, producer_id=who[0], producer_epoch=who[1], committed=commit)
        answer = self.send(request, (5 if self.version >= 2 else 4) if api is None else api)
        return answer.error_code, (answer.producer_id, answer.producer_epoch)

    def begin(
        self, who: Identity, partitions: Sequence[tuple[str, int]] = ((DATA, 0), (DATA, 1)), *, name: str = ID
    ) -> None:
        """Open a transaction at the current transaction version."""
        if self.version >= 2:
            errors = self.ask(who, partitions, verify_only=False, name=name)
        else:
            errors = self.add(who, partitions, name=name)
        assert not any(errors), errors

    def write(self, who: Identity, value: bytes, sequence: int = 0, *, partition: int = 0) -> int:
        """Produce a record in the transaction; return the error code."""
        records = batch(value, producer_id=who[0], producer_epoch=who[1], base_sequence=sequence, is_transactional=True)
        data = ProduceRequest.PartitionProduceData(index=partition, records=records)
        topic = ProduceRequest.TopicProduceData(name=DATA, partition_data=[data])
        request = ProduceRequest(transactional_id=ID, acks=-1, timeout_ms=1000, topic_data=[topic])
        answer = self.send(request, 12 if self.version >= 2 else 11)
        code: int = answer.responses[0].partition_responses[0].error_code
        return code

    # Records and state

    @property
    def shard(self) -> TransactionShard:
        return self.broker.transactions.shard(ID)

    def state(self, name: str = ID) -> TransactionMetadata:
        return self.shard.transactions[name]

    def log(self, topic: str = TOPIC, partition: int = 0) -> PartitionLog:
        log = self.broker.logs.get(topic, partition)
        assert log is not None
        return log

    def records(self) -> list[tuple[str, TransactionLogValue | None]]:
        """Return the records of `__transaction_state`."""
        found = []
        for one in read_batches(self.log().read(0, 1 << 20).records.read()):
            for record in one.records():
                key, value = decode_record(record.key or b"", record.value, TOPIC)
                assert isinstance(key, TransactionLogKey)
                assert value is None or isinstance(value, TransactionLogValue)
                found.append((key.transactional_id, value))
        return found

    def markers(self, partition: int = 0, topic: str = DATA) -> list[tuple[bool, int]]:
        """Return, for each marker, whether it commits, and its epoch."""
        log = self.log(topic, partition)
        if log.log_end_offset == log.log_start_offset:
            return []
        return [
            (parse_control_record(record).type == COMMIT, one.producer_epoch)
            for one in read_batches(log.read(0, 1 << 20).records.read())
            if one.is_control
            for record in one.records()
        ]


def _topics(partitions: Iterable[tuple[str, int]]) -> list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]:
    topics: dict[str, Any] = {}
    for topic, number in partitions:
        topics.setdefault(topic, AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic)).partitions.append(
            number
        )
    return list(topics.values())
