"""The methods of the admin clients for transactions and producers."""

from __future__ import annotations

from collections.abc import Iterable

from kclient.admin import prepared_transactions, producers, transactions
from kclient.admin.methods.base import AsyncMethods, BlockingMethods, documented_by
from kclient.admin.producers import MAX_TRANSACTION_TIMEOUT, HangingTransaction, ProducerState
from kclient.admin.transactions import FencedProducer, TransactionDescription, TransactionListing, TransactionState
from kclient.types import PreparedTransaction, TopicPartition


class TransactionMethods(BlockingMethods):
    """The blocking methods."""

    def list_transactions(
        self,
        *,
        states: Iterable[TransactionState] = (),
        producer_ids: Iterable[int] = (),
        min_duration: float | None = None,
        transactional_id_pattern: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, TransactionListing]:
        """Return the transactional ids of all brokers.

        Parameters:
            states: only transactions in these states; all if empty.
            producer_ids: only transactions of these producer ids; all if empty.
            min_duration: only transactions that have been open for longer than this many seconds (KIP-994).
            transactional_id_pattern: only transactional ids that match this regular expression in RE2 syntax as a whole
                (KIP-1152).
            timeout: seconds; None is the option default_api_timeout_ms.

        Errors by broker: CoordinatorLoadInProgressError while a broker loads its transactions, and others.
        """
        deadline = self._core.deadline("list_transactions", timeout)
        return self._run(
            transactions.list_transactions(
                self._core, states, producer_ids, min_duration, transactional_id_pattern, deadline
            )
        )

    def describe_transactions(
        self, transactional_ids: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, TransactionDescription]:
        """Return state, producer id, epoch and partitions of transactional ids.

        Errors by transactional id: TransactionalIdNotFoundError, TransactionalIdAuthorizationError.
        """
        deadline = self._core.deadline("describe_transactions", timeout)
        return self._run(transactions.describe_transactions(self._core, transactional_ids, deadline))

    def complete_transaction(
        self, prepared: PreparedTransaction, *, commit: bool = True, timeout: float | None = None
    ) -> None:
        """Commit or abort a transaction that a producer has prepared, usually in another process (KIP-939).

        A repeated call with the same arguments has no further effect. The producer is not notified. The transaction is
        aborted if its timeout passes before this call, or if a producer calls init_transactions with its transactional
        id.

        Raises:
            InvalidTxnStateError: the transaction has ended the other way, or can no longer be ended; the text says
                which.
            ProducerFencedError: the transactional id was used again, or the transaction's timeout passed.
            InvalidPidMappingError: the transactional id has expired.
        """
        deadline = self._core.deadline("complete_transaction", timeout)
        return self._run(prepared_transactions.complete_transaction(self._core, prepared, commit, deadline))

    def fence_producers(
        self, transactional_ids: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, FencedProducer]:
        """Fence the producers of transactional ids, and abort their open transactions.

        The next call of a fenced producer raises ProducerFencedError; a new producer of the id works. An unknown
        transactional id is created.
        """
        deadline = self._core.deadline("fence_producers", timeout)
        return self._run(transactions.fence_producers(self._core, transactional_ids, deadline))

    def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker_id: int | None = None, timeout: float | None = None
    ) -> dict[TopicPartition, tuple[ProducerState, ...]]:
        """Return the producers that have written to partitions recently, as the leader or another replica knows them.

        Parameters:
            partitions: the partitions.
            broker_id: the broker of the replica to ask; None is the leader.
            timeout: seconds; None is the option default_api_timeout_ms.

        Errors by partition: UnknownTopicOrPartitionError, NotLeaderOrFollowerError if the broker has no replica.
        """
        deadline = self._core.deadline("describe_producers", timeout)
        return self._run(producers.describe_producers(self._core, partitions, broker_id, deadline))

    def find_hanging_transactions(
        self,
        *,
        topics: str | Iterable[str] | None = None,
        broker_id: int | None = None,
        max_transaction_timeout: float = MAX_TRANSACTION_TIMEOUT,
        timeout: float | None = None,
    ) -> list[HangingTransaction]:
        """Return open transactions that no coordinator will end (KIP-664).

        A hanging transaction blocks consumers with isolation_level="read_committed".

        Parameters:
            topics: the topics to search; None for all.
            broker_id: search only partitions that this broker leads; None for all.
            max_transaction_timeout: the longest time in seconds that a transaction of the cluster may be open, which is
                the brokers' transaction.max.timeout.ms.
            timeout: seconds; None is the option default_api_timeout_ms.
        """
        deadline = self._core.deadline("find_hanging_transactions", timeout)
        return self._run(
            producers.find_hanging_transactions(self._core, topics, broker_id, max_transaction_timeout, deadline)
        )

    def abort_transaction(
        self,
        partition: TopicPartition,
        *,
        start_offset: int | None = None,
        producer_id: int | None = None,
        producer_epoch: int | None = None,
        coordinator_epoch: int | None = None,
        timeout: float | None = None,
    ) -> None:
        """Abort a hanging transaction in one partition without its coordinator.

        Aborting a transaction that does not hang loses its records. Name the transaction by its start offset, as
        `find_hanging_transactions` returns it, or by producer id and epoch.

        Raises:
            IllegalStateError: no open transaction begins at that offset.
            InvalidProducerEpochError: the producer has a newer epoch in the partition.
            TransactionCoordinatorFencedError: the partition has had a marker with a higher coordinator epoch.
            ClusterAuthorizationError: the client may not alter the cluster.
        """
        deadline = self._core.deadline("abort_transaction", timeout)
        return self._run(
            producers.abort_transaction(
                self._core, partition, start_offset, producer_id, producer_epoch, coordinator_epoch, deadline
            )
        )


@documented_by(TransactionMethods)
class AsyncTransactionMethods(AsyncMethods):
    """The same methods for asyncio and trio."""

    async def list_transactions(
        self,
        *,
        states: Iterable[TransactionState] = (),
        producer_ids: Iterable[int] = (),
        min_duration: float | None = None,
        transactional_id_pattern: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, TransactionListing]:
        deadline = self._core.deadline("list_transactions", timeout)
        return await self._run(
            transactions.list_transactions(
                self._core, states, producer_ids, min_duration, transactional_id_pattern, deadline
            ),
        )

    async def describe_transactions(
        self, transactional_ids: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, TransactionDescription]:
        deadline = self._core.deadline("describe_transactions", timeout)
        return await self._run(transactions.describe_transactions(self._core, transactional_ids, deadline))

    async def complete_transaction(
        self, prepared: PreparedTransaction, *, commit: bool = True, timeout: float | None = None
    ) -> None:
        deadline = self._core.deadline("complete_transaction", timeout)
        return await self._run(prepared_transactions.complete_transaction(self._core, prepared, commit, deadline))

    async def fence_producers(
        self, transactional_ids: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, FencedProducer]:
        deadline = self._core.deadline("fence_producers", timeout)
        return await self._run(transactions.fence_producers(self._core, transactional_ids, deadline))

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker_id: int | None = None, timeout: float | None = None
    ) -> dict[TopicPartition, tuple[ProducerState, ...]]:
        deadline = self._core.deadline("describe_producers", timeout)
        return await self._run(producers.describe_producers(self._core, partitions, broker_id, deadline))

    async def find_hanging_transactions(
        self,
        *,
        topics: str | Iterable[str] | None = None,
        broker_id: int | None = None,
        max_transaction_timeout: float = MAX_TRANSACTION_TIMEOUT,
        timeout: float | None = None,
    ) -> list[HangingTransaction]:
        deadline = self._core.deadline("find_hanging_transactions", timeout)
        return await self._run(
            producers.find_hanging_transactions(self._core, topics, broker_id, max_transaction_timeout, deadline),
        )

    async def abort_transaction(
        self,
        partition: TopicPartition,
        *,
        start_offset: int | None = None,
        producer_id: int | None = None,
        producer_epoch: int | None = None,
        coordinator_epoch: int | None = None,
        timeout: float | None = None,
    ) -> None:
        deadline = self._core.deadline("abort_transaction", timeout)
        return await self._run(
            producers.abort_transaction(
                self._core, partition, start_offset, producer_id, producer_epoch, coordinator_epoch, deadline
            ),
        )
