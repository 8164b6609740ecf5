"""Transactions made with requests of the protocol alone, so that a test can leave one open, or write behind its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from kclient.config import ClientConfig
from kclient.errors import KafkaError, error_from_code
from kclient.net.coordinator import TRANSACTION
from kclient.net.engine import Engine
from kclient.net.manager import ANY_NODE
from kclient.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kclient.protocol.messages.api_versions import ApiVersionsRequest
from kclient.protocol.messages.end_txn import EndTxnRequest
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest
from kclient.protocol.messages.init_producer_id import InitProducerIdRequest
from kclient.protocol.messages.metadata import MetadataRequest
from kclient.protocol.messages.produce import ProduceRequest
from kclient.protocol.messages.update_features import UpdateFeaturesRequest
from kclient.records import BatchBuilder
from kclient.types import PreparedTransaction
from tests.waiting import wait_until

TIMEOUT = 20.0
LAST_ADD_OF_CLIENTS = 3
LAST_PRODUCE_WITHOUT_ADDING = 11
LAST_END_WITHOUT_BUMP = 4
UPGRADE, DOWNGRADE = 1, 2


class RawTransactions:
    """Producers of transactions, one step at a time, in the way of transaction.version 1; a context manager."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._engine = Engine(ClientConfig(bootstrap_servers=bootstrap_servers))
        self._engine.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._engine.close(5.0)

    def start(self, transactional_id: str, timeout_ms: int = 60_000) -> PreparedTransaction:
        """What init_transactions does."""
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        answer = self._at_coordinator(transactional_id, InitProducerIdRequest, request)
        return PreparedTransaction(transactional_id, answer.producer_id, answer.producer_epoch)

    def add(self, of: PreparedTransaction, topic: str, *partitions: int) -> None:
        """Tell the coordinator what the transaction is going to write to."""
        kind = AddPartitionsToTxnRequest
        request = kind(
            v3_and_below_transactional_id=of.transactional_id,
            v3_and_below_producer_id=of.producer_id,
            v3_and_below_producer_epoch=of.epoch,
            v3_and_below_topics=[kind.AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
        )
        self._at_coordinator(
            of.transactional_id,
            kind,
            request,
            lambda answer: max(
                each.partition_error_code
                for one in answer.results_by_topic_v3_and_below
                for each in one.results_by_partition
            ),
            LAST_ADD_OF_CLIENTS,
        )

    def write(
        self, of: PreparedTransaction, topic: str, values: Sequence[bytes], *, partition: int = 0, sequence: int = 0
    ) -> int:
        """Append a batch; returns its first offset."""
        builder = BatchBuilder("none", max_bytes=1 << 20)
        for value in values:
            assert builder.append(1_600_000_000_000, None, value, ()) >= 0
        data = bytes(
            builder.build(
                producer_id=of.producer_id, producer_epoch=of.epoch, base_sequence=sequence, is_transactional=True
            )
        )
        part = ProduceRequest.PartitionProduceData(index=partition, records=data)
        request = ProduceRequest(
            transactional_id=of.transactional_id,
            acks=-1,
            timeout_ms=15_000,
            topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[part])],
        )
        answer = self._until_done(
            lambda: self._call(self._leader(topic, partition), ProduceRequest, request, LAST_PRODUCE_WITHOUT_ADDING),
            lambda answer: answer.responses[0].partition_responses[0].error_code,
        )
        return int(answer.responses[0].partition_responses[0].base_offset)

    def end(self, of: PreparedTransaction, *, commit: bool) -> None:
        """What the producer itself does, without raising its epoch."""
        request = EndTxnRequest(
            transactional_id=of.transactional_id,
            producer_id=of.producer_id,
            producer_epoch=of.epoch,
            committed=commit,
        )
        self._at_coordinator(of.transactional_id, EndTxnRequest, request, maximum_version=LAST_END_WITHOUT_BUMP)

    def prepared(self, transactional_id: str, topic: str, *values: bytes, timeout_ms: int = 60_000) -> Any:
        """A transaction that has written to partition 0, and waits for its end."""
        made = self.start(transactional_id, timeout_ms)
        self.add(made, topic, 0)
        self.write(made, topic, values)
        return made

    def set_transaction_version(self, level: int) -> None:
        """Change the cluster's feature, and wait until all brokers say so."""
        now = self._transaction_version(ANY_NODE)
        if level == now:
            return
        kind = UpdateFeaturesRequest
        update = kind.FeatureUpdateKey(
            feature="transaction.version", max_version_level=level, upgrade_type=UPGRADE if level > now else DOWNGRADE
        )
        request = kind(timeout_ms=15_000, feature_updates=[update])
        self._until_done(lambda: self._call(ANY_NODE, kind, request), lambda answer: answer.error_code)
        brokers = self._engine.metadata.cluster.brokers
        wait_until(lambda: all(self._transaction_version(node) == level for node in brokers))

    def _transaction_version(self, node: int) -> int:
        request = ApiVersionsRequest(client_software_name="kclient", client_software_version="test")
        answer = self._call(node, ApiVersionsRequest, request)
        levels = {feature.name: int(feature.max_version_level) for feature in answer.finalized_features}
        return levels.get("transaction.version", 0)

    def _leader(self, topic: str, partition: int) -> int:
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
        )
        (found,) = self._call(ANY_NODE, MetadataRequest, request).topics
        return int(next(each.leader_id for each in found.partitions if each.partition_index == partition))

    def _at_coordinator(
        self,
        transactional_id: str,
        kind: Any,
        request: Any,
        code: Callable[[Any], int] = lambda answer: int(answer.error_code),
        maximum_version: int | None = None,
    ) -> Any:
        def once() -> Any:
            found = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[transactional_id])
            (coordinator,) = self._call(ANY_NODE, FindCoordinatorRequest, found).coordinators
            if coordinator.error_code:
                raise error_from_code(coordinator.error_code)
            return self._call(coordinator.node_id, kind, request, maximum_version)

        return self._until_done(once, code)

    def _until_done(self, ask: Callable[[], Any], code: Callable[[Any], int]) -> Any:
        """The first answer without an error that passes."""
        answers: list[Any] = []

        def done() -> bool:
            try:
                answer = ask()
                if code(answer):
                    raise error_from_code(code(answer))
            except KafkaError as error:
                if error.retriable:
                    return False
                raise
            answers.append(answer)
            return True

        wait_until(done)
        return answers[0]

    def _call(self, node: int, kind: Any, request: Any, maximum_version: int | None = None) -> Any:
        return self._engine.call(node, kind, lambda version: request, maximum_version=maximum_version).result(TIMEOUT)
