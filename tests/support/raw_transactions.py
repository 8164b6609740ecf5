"""Transactions made with raw requests, so that a test can leave one open, or write after its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from kclient.config import ClientConfig
from kclient.errors import KafkaError, error_from_code
from kclient.net.coordinator import TRANSACTION
from kclient.net.engine import Engine
from kclient.net.manager import ANY_NODE
from kclient.protocol import Message
from kclient.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kclient.protocol.messages.api_versions import ApiVersionsRequest
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest
from kclient.protocol.messages.metadata import MetadataRequest
from kclient.protocol.messages.produce import ProduceRequest
from kclient.protocol.messages.update_features import UpdateFeaturesRequest
from kclient.types import PreparedTransaction
from tests.support.raw_producer import RawProducer, error_codes
from tests.support.waiting import result_of, wait_until

TIMESTAMP_MS = 1_600_000_000_000
UPGRADE, DOWNGRADE = 1, 2
LATEST = 2
"""The initial transaction version of brokers under test."""


class RawTransactions:
    """Producers of transactions, one step at a time, as of transaction version 1; a context manager."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._engine = Engine(ClientConfig.from_options({"bootstrap_servers": bootstrap_servers}))
        self._engine.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._engine.close(5.0)

    def start(self, transactional_id: str, timeout_ms: int = 60_000) -> PreparedTransaction:
        """Initialize a producer id, as `init_transactions` does."""
        producer = RawProducer(self._ask, transactional_id, transactions=1)
        producer.init(transaction_timeout_ms=timeout_ms)
        return PreparedTransaction(transactional_id, producer.producer_id, producer.epoch)

    def _producer(self, of: PreparedTransaction, version: int = 1) -> RawProducer:
        producer = RawProducer(self._ask, of.transactional_id, transactions=version)
        producer.producer_id, producer.epoch = of.producer_id, of.epoch
        return producer

    def add(self, of: PreparedTransaction, topic: str, *partitions: int) -> None:
        """Add partitions to the transaction."""
        self._producer(of).add(topic, *partitions)

    def write(self, of: PreparedTransaction, topic: str, *values: bytes, partition: int = 0) -> None:
        """Append a producer's first batch."""
        self._producer(of).send(topic, *values, partition=partition, timestamp=TIMESTAMP_MS)

    def end(self, of: PreparedTransaction, *, commit: bool, version: int = 1) -> None:
        """End the transaction as the producer does; below version 2 its epoch stays."""
        self._producer(of, version).end(commit=commit)

    def prepared(
        self, transactional_id: str, topic: str, *values: bytes, timeout_ms: int = 60_000
    ) -> PreparedTransaction:
        """Begin a transaction that has written to partition 0 and is still open."""
        made = self.start(transactional_id, timeout_ms)
        self.add(made, topic, 0)
        self.write(made, topic, *values)
        return made

    @contextmanager
    def at_transaction_version(self, level: int) -> Iterator[int]:
        """Finalize `transaction.version` at a level, and at the latest level again at the end of the block."""
        self.set_transaction_version(level)
        try:
            yield level
        finally:
            self.set_transaction_version(LATEST)

    def set_transaction_version(self, level: int) -> None:
        """Finalize `transaction.version` at a level, and wait until all brokers report it."""
        now = self._transaction_version(ANY_NODE)
        if level == now:
            return
        kind = UpdateFeaturesRequest
        update = kind.FeatureUpdateKey(
            feature="transaction.version", max_version_level=level, upgrade_type=UPGRADE if level > now else DOWNGRADE
        )
        request = kind(timeout_ms=15_000, feature_updates=[update])
        self._until_done(lambda: self._call(ANY_NODE, kind, request))
        brokers = self._engine.metadata.cluster.brokers
        wait_until(lambda: all(self._transaction_version(node) == level for node in brokers))

    def _transaction_version(self, node: int) -> int:
        request = ApiVersionsRequest(client_software_name="kclient", client_software_version="test")
        answer = self._call(node, ApiVersionsRequest, request)
        levels = {feature.name: int(feature.max_version_level) for feature in answer.finalized_features}
        return levels.get("transaction.version", 0)

    def _ask(self, request: Message, version: int) -> Any:
        """Ask the leader or coordinator until it responds without a retriable error; raise other errors."""

        def once() -> Any:
            if isinstance(request, ProduceRequest):
                [topic] = request.topic_data
                node = self._leader(topic.name, topic.partition_data[0].index)
            else:
                is_add = isinstance(request, AddPartitionsToTxnRequest)
                node = self._coordinator(
                    request.v3_and_below_transactional_id if is_add else request.transactional_id  # type: ignore[attr-defined]
                )
            return self._call(node, type(request), request, version)

        return self._until_done(once)

    def _leader(self, topic: str, partition: int) -> int:
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
        )
        (found,) = self._call(ANY_NODE, MetadataRequest, request).topics
        return int(next(each.leader_id for each in found.partitions if each.partition_index == partition))

    def _coordinator(self, transactional_id: str) -> int:
        request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[transactional_id])
        (found,) = self._call(ANY_NODE, FindCoordinatorRequest, request).coordinators
        if found.error_code:
            raise error_from_code(found.error_code)
        return int(found.node_id)

    def _until_done(self, ask: Callable[[], Any]) -> Any:
        """Return the first response without a retriable error."""
        answers: list[Any] = []

        def done() -> bool:
            try:
                answer = ask()
                for code in error_codes(answer):
                    if code:
                        raise error_from_code(code)
            except KafkaError as error:
                if error.retriable:
                    return False
                raise
            answers.append(answer)
            return True

        wait_until(done)
        return answers[0]

    def _call(self, node: int, kind: Any, request: Any, maximum_version: int | None = None) -> Any:
        return result_of(self._engine.call(node, kind, lambda version: request, maximum_version=maximum_version))
