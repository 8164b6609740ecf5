"""The lifecycle of a broker under a controller, on scripted responses and a held clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from kclient.errors import (
    DisconnectedError,
    IllegalStateError,
    InconsistentClusterIdError,
    InvalidRegistrationError,
    KafkaError,
    RequestTimedOutError,
    UnsupportedVersionError,
)
from kclient.protocol import Message
from kclient.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kclient.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from refbroker.lifecycle.machine import BrokerReport, Lifecycle, Timing
from refbroker.lifecycle.manager import LifecycleManager
from refbroker.lifecycle.registration import Registration
from refbroker.lifecycle.states import STATES, BrokerEvent, BrokerState
from refbroker.runtime.clock import Clock
from refbroker.settings.listeners import Listener, SecurityProtocol
from tests.support.scripted_peers import simulated

A, B = UUID(int=11), UUID(int=10)
REGISTRATION = Registration(
    node_id=7,
    cluster_id="cluster",
    incarnation_id=UUID(int=5),
    listeners=[(Listener("OUTSIDE", "host", 9092), SecurityProtocol.SASL_SSL)],
    features={"group.version": (0, 1)},
    rack="r1",
    directories=[A, B],
    previous_epoch=12,
)
TIMING = Timing(2000, 60_000)


def registered(epoch: int = 33, code: int = 0) -> BrokerRegistrationResponse:
    return BrokerRegistrationResponse(broker_epoch=epoch, error_code=code)


def beat(**fields: Any) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(**{"is_fenced": False, "is_caught_up": True, **fields})


def running() -> Lifecycle:
    """Return a lifecycle in RUNNING, at time 0."""
    lifecycle = Lifecycle(REGISTRATION, TIMING)
    lifecycle.start(0)
    lifecycle.on_response(registered(), 0)
    lifecycle.on_response(beat(is_fenced=True), 0)
    lifecycle.ready(0)
    lifecycle.on_response(beat(), 0)
    assert lifecycle.state is BrokerState.RUNNING
    return lifecycle


def heartbeat_of(lifecycle: Lifecycle, report: BrokerReport | None = None) -> BrokerHeartbeatRequest:
    request = lifecycle.request(report or BrokerReport(99))
    assert isinstance(request, BrokerHeartbeatRequest)
    return request


def test_a_registration_has_what_the_controller_checks() -> None:
    lifecycle = Lifecycle(REGISTRATION, TIMING)
    lifecycle.start(0)
    request = lifecycle.request(BrokerReport())
    assert isinstance(request, BrokerRegistrationRequest)
    assert request == BrokerRegistrationRequest(
        broker_id=7,
        cluster_id="cluster",
        incarnation_id=UUID(int=5),
        listeners=[BrokerRegistrationRequest.Listener(name="OUTSIDE", host="host", port=9092, security_protocol=3)],
        features=[
            BrokerRegistrationRequest.Feature(name="group.version", min_supported_version=0, max_supported_version=1)
        ],
        rack="r1",
        log_dirs=[B, A],
        previous_broker_epoch=12,
    )
    assert request.decode(request.encode(4), 4) == request


def test_a_start_goes_from_registration_to_running() -> None:
    lifecycle = Lifecycle(REGISTRATION, TIMING)
    lifecycle.start(0)
    assert lifecycle.state is BrokerState.STARTING
    lifecycle.on_response(registered(), 5)
    assert lifecycle.next_ms == 5
    request = heartbeat_of(lifecycle, BrokerReport(20, cordoned=[A]))
    assert (request.broker_epoch, request.current_metadata_offset, request.want_fence) == (33, 20, True)
    assert request.cordoned_log_dirs is None
    lifecycle.on_response(beat(is_caught_up=False, is_fenced=True), 6)
    assert (lifecycle.state, lifecycle.next_ms) == (BrokerState.STARTING, 16)
    lifecycle.on_response(beat(is_fenced=True), 16)
    assert (lifecycle.state, lifecycle.next_ms) == (BrokerState.RECOVERY, 26)
    assert heartbeat_of(lifecycle, BrokerReport(20, cordoned=[A])).cordoned_log_dirs == [A]
    lifecycle.ready(20)
    assert not heartbeat_of(lifecycle).want_fence
    lifecycle.on_response(beat(), 21)
    assert (lifecycle.state, lifecycle.next_ms) == (BrokerState.RUNNING, 2021)


def test_a_controlled_shutdown_is_asked_for_until_the_controller_agrees() -> None:
    lifecycle = running()
    lifecycle.leave(100)
    assert lifecycle.next_ms == 100
    assert heartbeat_of(lifecycle).want_shut_down
    lifecycle.on_response(beat(), 101)
    assert lifecycle.next_ms == 151
    lifecycle.on_response(beat(), 151)
    assert lifecycle.next_ms == 2151
    lifecycle.on_response(beat(should_shut_down=True), 2151)
    assert lifecycle.state is BrokerState.SHUTTING_DOWN


def test_a_broker_that_is_not_running_leaves_without_a_controlled_shutdown() -> None:
    lifecycle = Lifecycle(REGISTRATION, TIMING)
    lifecycle.start(0)
    lifecycle.leave(1)
    assert lifecycle.state is BrokerState.SHUTTING_DOWN


@pytest.mark.parametrize("code", [77, 102], ids=["stale epoch", "not registered"])
def test_a_broker_whose_epoch_is_unknown_registers_again(code: int) -> None:
    lifecycle = running()
    lifecycle.on_response(beat(error_code=code), 10)
    assert lifecycle.next_ms == 2010
    request = lifecycle.request(BrokerReport())
    assert isinstance(request, BrokerRegistrationRequest)
    assert request.incarnation_id == REGISTRATION.incarnation_id
    lifecycle.on_response(registered(50), 2011)
    assert heartbeat_of(lifecycle).broker_epoch == 50
    assert lifecycle.state is BrokerState.RUNNING


def test_another_error_of_a_heartbeat_keeps_the_registration() -> None:
    lifecycle = running()
    lifecycle.on_response(beat(error_code=41), 10)
    assert heartbeat_of(lifecycle).broker_epoch == 33


@pytest.mark.parametrize(
    ("code", "error"),
    [(104, InconsistentClusterIdError), (35, UnsupportedVersionError), (119, InvalidRegistrationError)],
    ids=["cluster id", "features", "directories"],
)
def test_a_lasting_refusal_ends_the_start(code: int, error: type[Exception]) -> None:
    lifecycle = Lifecycle(REGISTRATION, TIMING)
    lifecycle.start(0)
    with pytest.raises(error):
        lifecycle.on_response(registered(code=code), 1)


def test_a_lasting_refusal_of_a_broker_that_was_registered_is_repeated() -> None:
    lifecycle = running()
    lifecycle.on_response(beat(error_code=77), 10)
    lifecycle.on_response(registered(code=35), 20)
    assert lifecycle.next_ms == 2020


def test_the_first_registration_is_repeated_until_its_time_has_passed() -> None:
    lifecycle = Lifecycle(REGISTRATION, TIMING)
    lifecycle.start(0)
    lifecycle.on_response(registered(code=101), 1)
    assert lifecycle.next_ms == 2001
    lifecycle.on_failure(59_999)
    with pytest.raises(RequestTimedOutError) as caught:
        lifecycle.on_failure(60_000, DisconnectedError("the node closed the connection", broker="node 1"))
    assert caught.value.message.startswith(
        "broker 7 could not register within 60000 ms: the node closed the connection;"
    )
    assert caught.value.broker == "node 1"


def test_a_broker_that_was_registered_never_gives_up() -> None:
    lifecycle = running()
    lifecycle.on_failure(10_000_000)
    assert lifecycle.next_ms == 10_002_000


def test_states_allow_no_step_back() -> None:
    with pytest.raises(IllegalStateError):
        STATES.next_state(BrokerState.RUNNING, BrokerEvent.CAUGHT_UP)
    assert not STATES.followers(BrokerState.SHUTTING_DOWN)


# The task


class ScriptedController:
    """A controller that answers by a script, one request at a time."""

    def __init__(self) -> None:
        self.asked: list[Message] = []
        self.answers: list[Message | KafkaError] = []
        self.waiting: asyncio.Future[Any] | None = None

    def ask(self, request: Message) -> asyncio.Future[Any]:
        self.asked.append(request)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if not self.answers:
            self.waiting = future
            return future
        answer = self.answers.pop(0)
        if isinstance(answer, KafkaError):
            future.set_exception(answer)
        else:
            future.set_result(answer)
        return future


Script = Callable[[LifecycleManager, ScriptedController, Clock], Any]


def managed(script: Script) -> Any:
    """Run a script with a manager on a held clock."""

    async def main() -> Any:
        clock = Clock(lambda: 0)
        clock.hold(1000)
        controller = ScriptedController()
        fatal: list[KafkaError] = []
        manager = LifecycleManager(
            Lifecycle(REGISTRATION, TIMING), controller, lambda: BrokerReport(1), clock, fatal.append
        )
        try:
            return await script(manager, controller, clock), fatal
        finally:
            await manager.stop()

    return simulated(main())


async def turns() -> None:
    """Let every task run that can."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_heartbeats_continue_when_the_clock_is_set_back() -> None:
    async def script(manager: LifecycleManager, controller: ScriptedController, clock: Clock) -> list[int]:
        controller.answers = [registered(), beat(is_fenced=True), beat(is_fenced=True), beat(is_fenced=True)]
        counts = []
        manager.start()
        await turns()
        clock.step(-3_600_000)
        for ms in (9, 1):
            clock.step(ms)
            await turns()
            counts.append(len(controller.asked))
        return counts

    assert managed(script) == ([2, 3], [])


def test_the_task_sends_when_it_is_due_by_the_clock() -> None:
    async def script(manager: LifecycleManager, controller: ScriptedController, clock: Clock) -> list[int]:
        controller.answers = [registered(), beat(is_fenced=True), beat(is_fenced=True), beat(), beat(), beat()]
        counts = []
        manager.start()
        await turns()
        counts.append(len(controller.asked))
        assert manager.caught_up.done()
        clock.step(10)
        await turns()
        counts.append(len(controller.asked))
        manager.ready()
        await turns()
        counts.append(len(controller.asked))
        assert manager.unfenced.done()
        clock.step(1999)
        await turns()
        counts.append(len(controller.asked))
        clock.step(1)
        await turns()
        counts.append(len(controller.asked))
        return counts

    counts, fatal = managed(script)
    assert (counts, fatal) == ([2, 3, 4, 4, 5], [])


def test_what_becomes_urgent_during_a_request_is_sent_after_its_response() -> None:
    async def script(manager: LifecycleManager, controller: ScriptedController, clock: Clock) -> list[Message]:
        controller.answers = [registered(), beat(is_fenced=True)]
        manager.start()
        await turns()
        clock.step(10)
        await turns()
        manager.ready()
        await turns()
        assert len(controller.asked) == 3
        assert controller.waiting is not None
        controller.answers = [beat()]
        controller.waiting.set_result(beat(is_fenced=True))
        await turns()
        return controller.asked

    asked, _ = managed(script)
    assert [request.want_fence for request in asked[1:]] == [True, True, False]


def test_a_failure_is_followed_by_a_whole_interval() -> None:
    async def script(manager: LifecycleManager, controller: ScriptedController, clock: Clock) -> list[int]:
        counts = []
        manager.start()
        await turns()
        manager.wake()
        assert controller.waiting is not None
        controller.waiting.set_exception(DisconnectedError("lost"))
        for step in (0, 1999, 1):
            clock.step(step)
            await turns()
            counts.append(len(controller.asked))
        return counts

    assert managed(script)[0] == [1, 1, 2]


def test_a_permanent_refusal_is_reported_once() -> None:
    async def script(manager: LifecycleManager, controller: ScriptedController, clock: Clock) -> None:
        controller.answers = [registered(code=104)]
        manager.start()
        await turns()
        clock.step(100_000)
        await turns()

    _, fatal = managed(script)
    assert [type(error) for error in fatal] == [InconsistentClusterIdError]


def test_a_controlled_shutdown_completes_when_the_controller_agrees() -> None:
    async def script(manager: LifecycleManager, controller: ScriptedController, clock: Clock) -> bool:
        controller.answers = [registered(), beat(is_fenced=True)]
        manager.start()
        manager.ready()
        await turns()
        controller.answers = [beat(), beat(), beat(should_shut_down=True)]
        clock.step(10)
        await turns()
        manager.leave()
        await turns()
        clock.step(50)
        await turns()
        return manager.stopped.done()

    stopped, _ = managed(script)
    assert stopped


def test_a_broker_that_stops_before_it_runs_cancels_who_waits_for_it() -> None:
    async def script(manager: LifecycleManager, controller: ScriptedController, clock: Clock) -> Any:
        manager.start()
        await turns()
        await manager.stop()
        return manager.unfenced.cancelled(), manager.caught_up.cancelled(), manager.stopped.done()

    assert managed(script)[0] == (True, True, True)
