"""The wiring of one consumer, whose parts are complete when they are made."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from kclient.config import ConsumerConfig
from kclient.consumer.app_thread import AppThread
from kclient.consumer.assignment.fetch_buffer import FetchBuffer
from kclient.consumer.assignment.reset import parse_policy
from kclient.consumer.assignment.subscription import Subscription
from kclient.consumer.committed.callbacks import CommitCallbacks, RunSoon
from kclient.consumer.committed.group_offsets import GroupOffsets
from kclient.consumer.committed.wiring import wire_group_offsets
from kclient.consumer.fetching.collector import Collector
from kclient.consumer.fetching.fetcher import Fetcher
from kclient.consumer.group.membership import Membership, wire_member, wire_membership
from kclient.consumer.group.poll_interval import PollInterval
from kclient.consumer.health.gauges import HealthGauges
from kclient.consumer.health.monitor import HealthMonitor
from kclient.consumer.health.poll_tracker import PollTracker
from kclient.consumer.health.snapshot import GroupView, HealthView
from kclient.consumer.interceptors import Interceptors
from kclient.consumer.iteration.current_chunk import Iteration
from kclient.consumer.metrics import ConsumerMetrics
from kclient.consumer.positions.calls import PositionCalls
from kclient.consumer.positions.list_offsets import OffsetsManager
from kclient.consumer.positions.validation import ValidationManager
from kclient.consumer.topic_watch import TopicWatch
from kclient.net.backoff import retry_backoff
from kclient.net.engine import Engine
from kclient.net.requesting import Requester
from kclient.net.waiting import LoopBridge, Notifier


class GroupParts(NamedTuple):
    """The parts of the group, None without a group, and the application thread, which differs with a group."""

    membership: Membership | None
    offsets: GroupOffsets | None
    app_thread: AppThread


class ConsumerParts(NamedTuple):
    """The parts of one consumer.

    Attributes:
        config: the options.
        notifier: what the application's calls wait on.
        engine: the network thread, not started yet.
        subscription: the assigned partitions.
        collector, iteration: records for the application.
        fetcher, offsets: managers that are notified when the consumer closes.
        group, group_offsets: None without a group.
        app_thread: the application's side of a call.
        positions: the calls about positions.
        requester: sends and retries the requests of calls.
        poll_tracker: the calls for records.
        health, gauges: the health of the consumer, and the same as metrics.
        metrics: the metrics of records.
    """

    config: ConsumerConfig
    notifier: Notifier
    engine: Engine
    subscription: Subscription
    collector: Collector
    interceptors: Interceptors
    iteration: Iteration
    fetcher: Fetcher
    offsets: OffsetsManager
    group: Membership | None
    group_offsets: GroupOffsets | None
    app_thread: AppThread
    positions: PositionCalls
    requester: Requester
    poll_tracker: PollTracker
    health: HealthView
    gauges: HealthGauges
    metrics: ConsumerMetrics


def wire_consumer(config: ConsumerConfig, notifier: Notifier, bridge: LoopBridge | None = None) -> ConsumerParts:
    """Return the parts of a consumer.

    Parameters:
        config: the options.
        notifier: what the application's calls wait on.
        bridge: the bridge into the event loop of an async client; None for a blocking one, which runs the callbacks of
            commits in its calls.
    """
    policy = parse_policy(config.auto_offset_reset)
    engine = Engine(config, bridge=bridge)
    run_soon = None if bridge is None else bridge.post
    engine.on_failure(lambda error: notifier.notify())
    random = engine.runtime.random()
    metrics = ConsumerMetrics(engine.metrics)
    buffer = FetchBuffer(on_data=notifier.notify, on_room=engine.wakeup)
    subscription = Subscription(buffer, policy, in_group=config.group_id is not None, on_change=engine.wakeup)
    engine.metadata.add_listener(subscription.update_metadata)
    collector = Collector(subscription, config)
    iteration = Iteration(collector)
    shared = (subscription, engine.metadata, engine.nodes, config)
    fetcher = Fetcher(*shared, random=random, on_fetched=metrics.on_fetched)
    offsets = OffsetsManager(*shared, random=random, wall_clock=engine.runtime.time_ms)
    validation = ValidationManager(*shared, random=random)
    watch = TopicWatch(
        subscription, engine.metadata, lambda: engine.is_unreachable, config.default_api_timeout_ms / 1000
    )
    for manager in (fetcher, offsets, validation, watch):
        engine.add(manager)
    group, group_offsets, app_thread = _wire_group(config, notifier, engine, subscription, iteration, random, run_soon)
    poll_tracker = PollTracker(engine.clock)
    view = GroupView()
    if group is not None and group_offsets is not None:
        view = GroupView(group.member, group.coordinator, lambda: group.rebalancing, lambda: group_offsets.commit_error)
    health = HealthView(
        subscription,
        engine.metadata,
        iteration.place,
        poll_tracker,
        view,
        engine.connectivity,
        reads_committed=config.reads_committed,
    )
    gauges = HealthGauges(engine.metrics, subscription, health)
    engine.add(HealthMonitor(config, subscription, health, gauges, view, run_soon=engine.run_soon))
    return ConsumerParts(
        config=config,
        notifier=notifier,
        engine=engine,
        subscription=subscription,
        collector=collector,
        interceptors=Interceptors(config.interceptors),
        iteration=iteration,
        fetcher=fetcher,
        offsets=offsets,
        group=group,
        group_offsets=group_offsets,
        app_thread=app_thread,
        positions=PositionCalls(
            config,
            engine,
            subscription,
            iteration,
            offsets,
            leave_iteration=app_thread.leave_iteration,
            begin_call=app_thread.begin_call,
        ),
        requester=Requester(engine, retry_backoff(config, random), config.request_timeout_ms / 1000),
        poll_tracker=poll_tracker,
        health=health,
        gauges=gauges,
        metrics=metrics,
    )


def _wire_group(
    config: ConsumerConfig,
    notifier: Notifier,
    engine: Engine,
    subscription: Subscription,
    iteration: Iteration,
    random: Random,
    run_soon: RunSoon | None,
) -> GroupParts:
    def wake() -> None:
        # An application in the middle of a chunk also has something to do now.
        iteration.interrupt()
        notifier.notify()

    if config.group_id is None:
        return GroupParts(None, None, AppThread(engine, subscription, iteration, wake, None, None))
    poll_interval = PollInterval(config.max_poll_interval_ms, iteration.last)
    parts = wire_member(config, engine, random=random, poll_interval=poll_interval, wake=wake)
    offsets = wire_group_offsets(
        config,
        engine,
        subscription,
        parts.coordinator,
        parts.member,
        place=iteration.place,
        random=random,
        callbacks=CommitCallbacks(run_soon, notifier.notify),
    )
    app_thread = AppThread(engine, subscription, iteration, wake, offsets, poll_interval)
    group = wire_membership(
        config, engine, subscription, parts, commits=offsets, wait=app_thread.wait_for_group, wake=wake
    )
    for manager in (*offsets.managers, *parts.managers):
        engine.add(manager)
    engine.on_failure(offsets.fail_all)
    return GroupParts(group, offsets, app_thread)
