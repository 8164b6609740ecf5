"""A transactional producer made of raw requests, whose responses the test sees; for any broker."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from kclient.protocol import Message
from kclient.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kclient.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kclient.protocol.messages.end_txn import EndTxnRequest
from kclient.protocol.messages.init_producer_id import InitProducerIdRequest
from kclient.protocol.messages.produce import ProduceRequest
from kclient.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kclient.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from kclient.records import BatchBuilder

TIMESTAMP_MS = 1_700_000_000_000
NOTHING = -1
_ERROR_CODE = re.compile(r"error_code=(\d+)")


class RawProducer:
    """A producer that sends whatever the test asks for, allowed or not.

    Parameters:
        ask: sends a request in a version, and returns the response.
        transactional_id: None for a producer that is only idempotent.
        transactions: the transaction version it speaks, 1 or 2.

    Attributes:
        producer_id, epoch: as assigned by the broker.
        sequences: the next sequence, by topic and partition.
    """

    def __init__(
        self, ask: Callable[[Message, int], Any], transactional_id: str | None, *, transactions: int = 2
    ) -> None:
        self.ask = ask
        self.transactional_id = transactional_id
        self.transactions = transactions
        self.producer_id = self.epoch = NOTHING
        self.sequences: dict[tuple[str, int], int] = {}

    @property
    def is_v2(self) -> bool:
        return self.transactions == 2

    def _version(self, wanted: int | None) -> int:
        """Return the version of TxnOffsetCommit or EndTxn."""
        return wanted if wanted is not None else 5 if self.is_v2 else 4

    def init(self, *, version: int = 5, **fields: Any) -> Any:
        """Initialize the producer id; a first one, unless the fields contain the producer's id and epoch."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, **{"transaction_timeout_ms": 60_000, **fields}
        )
        answer = self.ask(request, version)
        if not answer.error_code:
            self._identify(answer.producer_id, answer.producer_epoch)
        return answer

    def _identify(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.producer_id, self.epoch = producer_id, epoch
            self.sequences = {}

    def add(self, topic: str, *partitions: int, version: int = 3) -> Any:
        """Add partitions to the transaction, as producers of transaction version 1 must."""
        one = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=list(partitions or (0,)))
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id or "",
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[one],
        )
        return self.ask(request, version)

    def send(
        self,
        topic: str,
        *values: bytes,
        partition: int = 0,
        sequence: int | None = None,
        version: int | None = None,
        **header: Any,
    ) -> Any:
        """Send a batch, and return the partition's response. The sequence advances when the batch was stored."""
        data = self.batch(topic, *values or (b"value",), partition=partition, sequence=sequence, **header)
        request = produce_request(topic, data, partition=partition, transactional_id=self.transactional_id)
        answer = (
            self.ask(request, version if version is not None else 12 if self.is_v2 else 11)
            .responses[0]
            .partition_responses[0]
        )
        if not answer.error_code and sequence is None:
            self.sequences[topic, partition] = self.sequences.get((topic, partition), 0) + len(values or (b"",))
        return answer

    def batch(
        self, topic: str, *values: bytes, partition: int = 0, sequence: int | None = None, **header: Any
    ) -> bytes:
        """Return the next batch in sequence, or one with another sequence."""
        builder = BatchBuilder()
        for timestamp, value in enumerate(values, header.pop("timestamp", TIMESTAMP_MS)):
            builder.append(timestamp, b"key", value)
        known = {
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "base_sequence": self.sequences.get((topic, partition), 0) if sequence is None else sequence,
            "is_transactional": self.transactional_id is not None,
        }
        return bytes(builder.build(**{**known, **header}))

    def add_offsets(self, group: str, *, version: int = 3) -> Any:
        """Add a group's offsets to the transaction, as producers of transaction version 1 must."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id or "",
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group,
        )
        return self.ask(request, version)

    def commit_offsets(
        self, group: str, offsets: Mapping[tuple[str, int], int], *, version: int | None = None, **fields: Any
    ) -> list[int]:
        """Commit offsets of a group; return the error codes of the partitions."""
        metadata = fields.pop("metadata", "m")
        topics: dict[str, TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic] = {}
        for (topic, partition), offset in offsets.items():
            kind = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
            topics.setdefault(topic, kind(name=topic)).partitions.append(
                TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                    partition_index=partition, committed_offset=offset, committed_metadata=metadata
                )
            )
        own = {
            "transactional_id": self.transactional_id or "",
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }
        request = TxnOffsetCommitRequest(group_id=group, topics=list(topics.values()), **{**own, **fields})
        answer = self.ask(request, self._version(version))
        return [one.error_code for topic in answer.topics for one in topic.partitions]

    def end(self, *, commit: bool, version: int | None = None, **fields: Any) -> Any:
        """End the transaction; a producer of transaction version 2 continues with the producer id and epoch of the
        response.
        """
        own = {
            "transactional_id": self.transactional_id or "",
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }
        answer = self.ask(EndTxnRequest(committed=commit, **{**own, **fields}), self._version(version))
        if not answer.error_code and self.is_v2:
            self._identify(answer.producer_id, answer.producer_epoch)
        return answer

    def mark(
        self,
        *partitions: tuple[str, int],
        commit: bool = False,
        version: int = 2,
        transaction_version: int = 0,
        coordinator_epoch: int = 0,
        **fields: Any,
    ) -> list[int]:
        """Write markers as a coordinator does; return the error codes of the partitions."""
        marker = WriteTxnMarkersRequest.WritableTxnMarker(
            **{"producer_id": self.producer_id, "producer_epoch": self.epoch, **fields},
            transaction_result=commit,
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
            topics=[
                WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])
                for topic, partition in partitions
            ],
        )
        answer = self.ask(WriteTxnMarkersRequest(markers=[marker]), version)
        return [one.error_code for marker in answer.markers for topic in marker.topics for one in topic.partitions]


def error_codes(answer: Any) -> list[int]:
    """Return all error codes of a response, including 0."""
    return [int(code) for code in _ERROR_CODE.findall(repr(answer))]


def produce_request(
    topic: str, records: bytes, *, partition: int = 0, transactional_id: str | None = None, acks: int = -1
) -> ProduceRequest:
    """Return a request with one batch."""
    data = ProduceRequest.PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=10_000,
        topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[data])],
    )
