"""The wiring of the committed offsets of one consumer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Protocol

from kclient.config import ConsumerConfig
from kclient.consumer.assignment.subscription import Subscription
from kclient.consumer.committed.auto_commit import AutoCommit
from kclient.consumer.committed.callbacks import CommitCallbacks
from kclient.consumer.committed.generations import GenerationSource
from kclient.consumer.committed.group_offsets import GroupOffsets, OffsetManagers
from kclient.consumer.committed.offset_commit import CommitManager
from kclient.consumer.committed.offset_fetch import CommittedFetcher
from kclient.consumer.committed.selection import OffsetSelector
from kclient.consumer.interceptors import Interceptors
from kclient.consumer.iteration.current_chunk import Place
from kclient.metrics import Metrics
from kclient.net.coordinator import Coordinator
from kclient.net.manager import Nodes
from kclient.net.metadata import MetadataManager
from kclient.types import OffsetAndMetadata, TopicPartition


class Client(Protocol):
    """The engine as committed offsets see it."""

    @property
    def metadata(self) -> MetadataManager: ...

    @property
    def nodes(self) -> Nodes: ...

    @property
    def metrics(self) -> Metrics: ...

    @property
    def clock(self) -> Callable[[], float]: ...

    def submit(self, function: Callable[[], None]) -> None: ...


def wire_group_offsets(
    config: ConsumerConfig,
    client: Client,
    subscription: Subscription,
    coordinator: Coordinator,
    member: GenerationSource,
    *,
    place: Callable[[], Place | None],
    random: Random,
    callbacks: CommitCallbacks,
) -> GroupOffsets:
    """Return the committed offsets of a consumer in a group.

    Parameters:
        config: the consumer's options, with a group_id.
        client: the engine.
        subscription: the assigned partitions.
        coordinator, member: the group's coordinator, and this consumer's membership.
        place: returns the place of the iteration; None outside of it, and before its first record. Any thread.
        random: for jitter.
        callbacks: the callbacks of the application's commits.
    """
    interceptors = Interceptors(config.interceptors)

    def on_committed(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        subscription.note_committed(offsets)
        if interceptors.see_commits:
            callbacks.add(lambda: interceptors.on_commit(offsets))

    selector = OffsetSelector(subscription, member, place, stored_only=not config.enable_auto_offset_store)
    commits = CommitManager(
        config,
        coordinator,
        client.metadata,
        member,
        random=random,
        metrics=client.metrics,
        on_committed=on_committed,
    )
    fetcher = CommittedFetcher(config, coordinator, subscription, client.metadata, client.nodes, member, random=random)
    automatic: AutoCommit | None = None
    if config.enable_auto_commit:
        automatic = AutoCommit(config, commits, selector, random=random, on_fatal=subscription.raise_soon)
    managers = OffsetManagers(commits, fetcher, automatic)
    return GroupOffsets(config, subscription, selector, managers, callbacks, submit=client.submit, clock=client.clock)
