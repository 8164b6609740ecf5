"""A transactional producer without sockets: the sender's model, and coordinators that a test plays."""

from __future__ import annotations

from typing import Any

from kclient.errors import KafkaError
from kclient.net.manager import Request
from kclient.producer.transactions.interfaces import PendingCall
from kclient.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kclient.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kclient.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kclient.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kclient.protocol.messages.produce import ProduceRequest
from kclient.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kclient.types import ConsumerGroupMetadata, Node, OffsetAndMetadata, TopicPartition
from tests.support.producer_model import FakeNodes, Model
from tests.support.typed import built

COORDINATOR = 3
DEDICATED = 103
GROUP = ConsumerGroupMetadata("g", 4, "member")
OFFSETS = {TopicPartition("in", 0): OffsetAndMetadata(5), TopicPartition("in", 1): OffsetAndMetadata(6)}


class TransactionNodes(FakeNodes):
    """Connections that know the cluster's features."""

    def __init__(self, version: int) -> None:
        super().__init__()
        self.version = version

    def feature_level(self, feature: str) -> int:
        return self.version if feature == "transaction.version" else 0

    def dedicate(self, node: Node) -> int:
        return 100 + node.node_id


class TransactionModel(Model):
    """One transactional producer, `tx`."""

    nodes: TransactionNodes

    def __init__(self, version: int = 2, *, initialized: bool = True, **options: Any) -> None:
        self.version = version
        self.opened: list[bool] = []
        self.lookups = 0
        """How often the transaction's coordinator was looked up."""
        self.lookup_code = 0
        """What look-ups are answered with."""
        self.changes = 0
        super().__init__(transactional_id="tx", **options)
        assert self.parts.transactions is not None
        self.transactions = self.parts.transactions
        if initialized:
            call = self.transactions.initialize()
            self.answer_step(self.one())
            assert call.done
            call.seen = True

    def make_nodes(self) -> TransactionNodes:
        return TransactionNodes(self.version)

    def on_change(self) -> None:
        self.changes += 1

    def on_open(self, is_open: bool) -> None:
        self.opened.append(is_open)

    @property
    def state(self) -> str:
        return self.transactions.state.name

    def begin(self, *values: bytes) -> list[Any]:
        """Begin a transaction and send to partition 0."""
        self.transactions.begin()
        return [self.send(value, partition=0) for value in values]

    def seen(self, call: PendingCall) -> KafkaError | None:
        """The result of a call that is done, as the application takes it."""
        assert call.done
        call.seen = True
        return call.error

    def poll(self) -> list[Request]:
        """The requests to send now, after those for coordinators were answered."""
        while True:
            requests = super().poll()
            lookups = [request for request in requests if request.request_type is FindCoordinatorRequest]
            for request in lookups:
                (key,) = built(request, FindCoordinatorRequest, 4).coordinator_keys
                self.lookups += key == "tx"
                found = FindCoordinatorResponse.Coordinator(
                    key=key, node_id=COORDINATOR, host="h", port=1, error_code=self.lookup_code
                )
                request.on_response(FindCoordinatorResponse(coordinators=[found]), self.now)
            if not lookups or len(lookups) < len(requests):
                return [request for request in requests if request not in lookups]

    def step(self) -> Any:
        """The one request there is: its message at the last version that it may have."""
        request = self.one()
        last = request.request_type.max_version if request.maximum_version is None else request.maximum_version
        return request, request.build(last)

    def answer_step(self, request: Request, code: int = 0, **fields: Any) -> None:
        """Answer a request to a coordinator, with the same code for all that it is about."""
        assert request.node == DEDICATED
        kind = request.request_type
        answer: Any
        if kind is InitProducerIdRequest:
            given = {"producer_id": 9, "producer_epoch": 0} if not code else {}
            answer = InitProducerIdResponse(error_code=code, **{**given, **fields})
        elif kind is AddPartitionsToTxnRequest:
            answer = self.partitions_answer(request, code)
        elif kind is AddOffsetsToTxnRequest:
            answer = AddOffsetsToTxnResponse(error_code=code)
        elif kind is TxnOffsetCommitRequest:
            answer = self.offsets_answer(request, code, **fields)
        else:
            assert kind is EndTxnRequest
            message = built(request, EndTxnRequest, 4)
            if not code and request.minimum_version == 5:
                fields = {"producer_id": message.producer_id, "producer_epoch": message.producer_epoch + 1, **fields}
            answer = EndTxnResponse(error_code=code, **fields)
        request.on_response(answer, self.now)

    def partitions_answer(self, request: Request, code: int, **fields: Any) -> AddPartitionsToTxnResponse:
        """The same code for all partitions."""
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult(
                            partition_index=partition, partition_error_code=code
                        )
                        for partition in topic.partitions
                    ],
                )
                for topic in built(request, AddPartitionsToTxnRequest, 3).v3_and_below_topics
            ],
            **fields,
        )

    def offsets_answer(
        self, request: Request, code: int, only: int | None = None, other_code: int = 0
    ) -> TxnOffsetCommitResponse:
        """The code for all partitions, or for one only, and another one for the rest."""
        return TxnOffsetCommitResponse(
            topics=[
                TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition(
                            partition_index=each.partition_index,
                            error_code=code if only in (None, each.partition_index) else other_code,
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in built(request, TxnOffsetCommitRequest, 5).topics
            ]
        )

    def deliver(self) -> None:
        """Answer everything with success, until there is nothing more to ask."""
        while requests := self.poll():
            for request in requests:
                if request.request_type is ProduceRequest:
                    self.answer(request)
                else:
                    self.answer_step(request)

    def deliver_records(self) -> None:
        """Have the records that wait written, and their partitions added."""
        for request in self.poll():
            if request.request_type is ProduceRequest:
                self.answer(request)
            else:
                self.answer_step(request)
                self.deliver_records()


def names(requests: list[Request]) -> list[str]:
    return [request.request_type.message_name.removesuffix("Request") for request in requests]


def drive(model: TransactionModel) -> list[tuple[str, Any]]:
    """Answer everything with success; returns what was asked, in order, each with its message."""
    asked: list[tuple[str, Any]] = []
    while requests := model.poll():
        for request in requests:
            last = request.request_type.max_version if request.maximum_version is None else request.maximum_version
            asked.append((names([request])[0], request.build(last)))
            if request.request_type is ProduceRequest:
                model.answer(request)
            else:
                model.answer_step(request)
    return asked
