"""One seeded run: brokers and a controller with the real machines, and everything that can go wrong."""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Callable

from kclient.errors import DuplicateBrokerRegistrationError
from kclient.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from refbroker.replication.fetcher import FetchTarget, FindOffsets
from tests.sim.replication.controller import NO_LEADER, SimulatedController, settings_of
from tests.sim.replication.invariants import Invariants, Violation
from tests.sim.replication.network import CONTROLLER, Network, Schedule
from tests.sim.replication.node import LAG_MS, Events, FetchedData, Node

SESSION_MS = 200
TIMEOUT_MS = 250
SLOWEST_MS = 200
CALM_MS = 20_000
NEVER = 1 << 60
"""A version of the metadata that does not come: a broker that is not registered applies none."""


class Simulation:
    """A cluster under one seed.

    Parameters:
        seed: decides everything.
        steps: the number of things that happen before the faults end.
    """

    def __init__(self, seed: int, steps: int = 900) -> None:
        self.seed = seed
        self.steps = steps
        self.rng = random.Random(seed)
        self.schedule = Schedule()
        self.network = Network(self.schedule, self.rng)
        self.min_isr, self.elr, unclean = settings_of(self.rng)
        self.power = self.rng.random() < 0.7
        self.faults = self.rng.choice((0.5, 1.0, 2.0))
        count = self.rng.choice((3, 3, 4))
        self.history: list[str] = []
        self.happened: Counter[str] = Counter()
        self.controller = SimulatedController(
            [1, 2, 3],
            session_ms=SESSION_MS,
            min_isr=self.min_isr,
            elr=self.elr,
            unclean=unclean,
            happened=self._note,
        )
        self.nodes: dict[int, Node] = {}
        strict = self.elr and self.min_isr >= 2
        self.invariants = Invariants(self.controller, self.nodes, strict=strict)
        self.offsets: dict[int, int] = {}
        self.values = 0
        self.calm = False
        for node_id in range(1, count + 1):
            self._create(node_id)
        for source in (*self.nodes, CONTROLLER):
            self._repeat(source)
        if self.rng.random() < 0.2:
            # A run that is about elections in quick succession.
            self.faults = 0.2
            elected = self.nodes[self.rng.choice((2, 3))]
            self.schedule.after(self.rng.randint(80, 250), lambda: self._elect_twice(elected))
        self._fault_later()
        self._produce_later()

    def _create(self, node_id: int) -> None:
        events = Events(
            acknowledged=self.invariants.acknowledge,
            appended=self.invariants.appended,
            led=self.invariants.led,
            moved=self.invariants.moved,
            happened=self._note,
        )
        self.offsets[node_id] = 1_000_000
        node = Node(node_id, self.min_isr, lambda: self.schedule.now_ms + self.offsets[node_id], events)
        self.nodes[node_id] = node
        node.start()
        known = self.controller.brokers.get(node_id)
        if known is None:
            self._register(node, clean=True)
        else:
            node.broker_epoch = known.broker_epoch

    def _note(self, what: str) -> None:
        self.happened[what] += 1

    def run(self) -> Invariants:
        """Run with faults, then without, until all replicas agree.

        Raises:
            Violation: an invariant does not hold, with the seed.
        """
        try:
            for _ in range(self.steps):
                self.schedule.step()
                self.invariants.check()
            self._settle()
        except Violation as violation:
            raise Violation(f"seed {self.seed}, {self.schedule.now_ms} ms: {violation}") from None
        return self.invariants

    def _settle(self) -> None:
        """End all faults, and wait until the replicas are equal."""
        self.calm = True
        self.network.heal()
        for node in self.nodes.values():
            node.paused = False
            if not node.alive:
                self._restart(node, clean=False)
        until = self.schedule.now_ms + CALM_MS
        while not self._is_settled():
            self.schedule.step()
            self.invariants.check()
            if self.schedule.now_ms > until:
                raise Violation(f"the replicas do not agree: {self.describe()}")

    def _is_settled(self) -> bool:
        state = self.controller.partition
        if state.leader == NO_LEADER or set(state.isr) != set(state.replicas) or state.adding_replicas:
            return False
        leader = self.nodes[state.leader]
        if not leader.partition.is_leader or leader.partition.leader_epoch != state.leader_epoch:
            return False
        end = leader.log.log_end_offset
        for member in state.replicas:
            log = self.nodes[member].log
            start = max(log.log_start_offset, leader.log.log_start_offset)
            if log.log_end_offset != end or log.high_watermark != end:
                return False
            if log.read(start, end) != leader.log.read(start, end):
                raise Violation(f"replicas in sync differ: {self.describe()}")
        return not leader.pending

    def describe(self) -> str:
        """Return the state of the cluster, for messages."""
        nodes = "; ".join(
            f"{node.node_id} {'up' if node.alive else 'down'} {node.partition} {node.partition.isr} {node.log} "
            f"{[each.state.value for each in node.fetcher.partitions.values()]}"
            for node in self.nodes.values()
        )
        return f"{self.controller.partition}; {nodes}; last faults {self.history[-6:]}"

    # What brokers do at intervals

    def _repeat(self, source: int) -> None:
        if source == CONTROLLER:
            self.schedule.after(20, self._tick)
            return
        node = self.nodes[source]
        for interval_ms, what in (
            (40, self._beat),
            (20, self._observe),
            (8, self._fetch),
            (LAG_MS // 2, self._shrink),
            (15, self._alter),
        ):
            self._repeat_for(node, interval_ms, what)

    def _repeat_for(self, node: Node, interval_ms: int, what: Callable[[Node], None]) -> None:
        def again() -> None:
            if node.alive and not node.paused:
                what(node)
            self.schedule.after(self.rng.randint(1, 2 * interval_ms), again)

        self.schedule.after(self.rng.randint(1, 2 * interval_ms), again)

    def _tick(self) -> None:
        self.controller.tick(self.schedule.now_ms)
        self.schedule.after(20, self._tick)

    def _arrives(self, node: Node, what: Callable[[], None]) -> Callable[[], None]:
        """Return a delivery that a later process of the node does not get; a paused one gets it later."""
        incarnation = node.incarnation

        def arrive() -> None:
            if not node.alive or node.incarnation != incarnation:
                return
            if node.paused:
                self.schedule.after(10, arrive)
            else:
                what()

        return arrive

    def _beat(self, node: Node) -> None:
        incarnation, epoch, version = node.incarnation, node.broker_epoch, node.version
        wants_shutdown = node.shutting_down

        def arrive() -> None:
            may_stop = self.controller.heartbeat(
                node.node_id, epoch, version, self.schedule.now_ms, wants_shutdown=wants_shutdown
            )
            if may_stop and node.incarnation == incarnation:
                self.network.send(CONTROLLER, node.node_id, self._arrives(node, lambda: self._stop_cleanly(node)))

        self.network.send(node.node_id, CONTROLLER, arrive)

    def _observe(self, node: Node) -> None:
        """Fetch some of the metadata log, and apply it."""
        newest = self.controller.version
        if newest <= node.version or newest < node.min_version:
            return
        following = max(node.version + 1, node.min_version)
        version = self.rng.choice((following, newest, self.rng.randint(following, newest)))

        def arrive() -> None:
            if version > node.version:
                node.apply(self.controller.history[version], version)

        self.network.send(CONTROLLER, node.node_id, self._arrives(node, arrive))

    def _fetch(self, node: Node) -> None:
        leader = self.nodes.get(node.partition.leader)
        if node.fetching or leader is None or leader is node:
            return
        targets = node.fetcher.targets(node.clock_ms())
        if not targets:
            return
        (target,) = targets
        node.fetching = True
        done: list[bool] = []

        def give_up() -> None:
            if not done:
                done.append(True)
                node.fetching = False
                node.fetcher.on_failure([target], node.clock_ms())

        def answered(data: FetchedData) -> None:
            if not done:
                done.append(True)
                node.fetching = False
                question = node.on_fetched(target, data.answer, data.read())
                if question is not None:
                    self._find_offsets(node, leader, question)

        self._request(node, leader, functools.partial(self._serve, node, leader, target), answered)
        self.schedule.after(TIMEOUT_MS, self._arrives(node, give_up))

    def _serve(self, node: Node, leader: Node, target: FetchTarget) -> FetchedData:
        return leader.serve(node.node_id, node.broker_epoch, target, self.rng)

    def _request(
        self, node: Node, leader: Node, serve: Callable[[], FetchedData], answered: Callable[[FetchedData], None]
    ) -> None:
        def arrive() -> None:
            data = serve()
            # A response may wait for a slow connection; its bytes are read from the file when it is sent.
            slow = 0 if self.calm or self.rng.random() < 0.8 else self.rng.randint(0, SLOWEST_MS)
            delivery = self._arrives(node, lambda: answered(data))
            self.schedule.after(slow, lambda: self.network.send(leader.node_id, node.node_id, delivery))

        self.network.send(node.node_id, leader.node_id, self._arrives(leader, arrive))

    def _find_offsets(self, node: Node, leader: Node, question: FindOffsets) -> None:
        done: list[bool] = []

        def answered(answer: tuple[int, int] | int) -> None:
            if not done:
                done.append(True)
                node.on_offsets(question, answer)

        def arrive() -> None:
            answer = leader.offsets(question.leader_epoch)
            self.network.send(leader.node_id, node.node_id, self._arrives(node, lambda: answered(answer)))

        self.network.send(node.node_id, leader.node_id, self._arrives(leader, arrive))
        self.schedule.after(TIMEOUT_MS, self._arrives(node, lambda: answered(-1)))

    def _shrink(self, node: Node) -> None:
        node.shrink()

    def _alter(self, node: Node) -> None:
        request = node.next_alter_partition()
        if request is None:
            return
        done: list[bool] = []

        def answered(response: AlterPartitionResponse | None) -> None:
            if not done:
                done.append(True)
                node.on_alter_partition(response)

        def arrive() -> None:
            response = self.controller.alter_partition(request)
            self.network.send(CONTROLLER, node.node_id, self._arrives(node, lambda: answered(response)))

        slow = 0 if self.calm or self.rng.random() < 0.8 else self.rng.randint(0, 2 * SLOWEST_MS)
        joining = {member for member, _ in _members(request)} - set(self.controller.partition.isr)
        if joining and self.power and not self.calm and self.rng.random() < 0.15:
            # The worst moment: the broker that joins loses records before the controller lets it join.
            slow = self.rng.randint(SLOWEST_MS, 2 * SLOWEST_MS)
            self._lose_power_briefly(self.nodes[min(joining)])
        # One connection: a request that is sent again does not overtake the first.
        self.network.send(node.node_id, CONTROLLER, arrive, in_order=(node.node_id, node.incarnation), slow_ms=slow)
        self.schedule.after(TIMEOUT_MS, self._arrives(node, lambda: answered(None)))

    # What clients do

    def _produce_later(self) -> None:
        self.schedule.after(self.rng.randint(1, 12), self._produce)

    def _produce(self) -> None:
        # In the calm, only enough records to notice that all is well.
        if not self.calm or self.rng.random() < 0.02:
            leaders = [node for node in self.nodes.values() if node.partition.is_leader and node.alive]
            if leaders:
                node = self.rng.choice(leaders)
                self.values += 0 if node.paused else 1
                if not node.paused:
                    node.produce(self.values)
        self._produce_later()

    # What goes wrong

    def _fault_later(self) -> None:
        self.schedule.after(self.rng.randint(1, int(60 / self.faults)), self._fault)

    def _fault(self) -> None:
        if self.calm:
            return
        node = self.nodes[self.rng.choice(list(self.nodes))]
        faults: list[tuple[int, Callable[[Node], None]]] = [
            (6, self._kill),
            (4 if self.power else 0, self._lose_power),
            (6 if self.power else 0, self._lose_power_briefly),
            (14, self._start),
            (5, self._pause),
            (8, self._resume),
            (10, self._partition),
            (7, self._heal),
            (4, self._step_clock),
            (8, self._flush),
            (8, self._save),
            (3, self._begin_shutdown),
            (10, self._elect),
            (5, self._elect_twice),
            (3 if len(self.nodes) > 3 else 0, self._reassign),
            (2, self._delete_records),
        ]
        (chosen,) = self.rng.choices([what for _, what in faults], [weight for weight, _ in faults])
        self.history.append(f"{self.schedule.now_ms}: {chosen.__name__}({node.node_id})")
        chosen(node)
        self._fault_later()

    def _kill(self, node: Node) -> None:
        if node.alive:
            node.log.crash()
            node.stop()

    def _lose_power(self, node: Node) -> None:
        if node.alive:
            before = node.log.log_end_offset
            end = node.log.lose_power(self.rng)
            node.stop()
            if end < before:
                node.lost = True
                self.invariants.lost(node, end)

    def _lose_power_briefly(self, node: Node) -> None:
        """Restart a broker so quickly that nobody notices its absence; its link to the leader may take longer."""
        self._lose_power(node)
        self.schedule.after(self.rng.randint(1, 80), lambda: self._start(node))
        links = {(node.node_id, self.controller.partition.leader)}
        if self.rng.random() < 0.5:
            self.network.cut |= links
            self.schedule.after(self.rng.randint(100, 500), lambda: self._uncut(links))

    def _start(self, node: Node) -> None:
        if not node.alive:
            self._restart(node, clean=False)

    def _restart(self, node: Node, *, clean: bool) -> None:
        node.start()
        self._register(node, clean=clean)

    def _register(self, node: Node, *, clean: bool) -> None:
        """Register a new process as soon as the session of the previous one has expired."""
        incarnation = node.incarnation
        node.broker_epoch, node.min_version = -1, NEVER

        def attempt() -> None:
            if not node.alive or node.incarnation != incarnation:
                return
            try:
                node.broker_epoch = self.controller.register(node.node_id, self.schedule.now_ms, clean=clean)
            except DuplicateBrokerRegistrationError:
                self._note("registered too early")
                self.schedule.after(self.rng.randint(1, SESSION_MS // 4), attempt)
            else:
                node.min_version = self.controller.version
                node.lost = node.lost and not self.invariants.strict

        attempt()

    def _pause(self, node: Node) -> None:
        node.paused = True

    def _resume(self, node: Node) -> None:
        for each in self.nodes.values():
            each.paused = False

    def _partition(self, node: Node) -> None:
        # A broker that misses metadata, or whose heartbeats do not arrive, follows or leads in an old epoch.
        other = CONTROLLER if self.rng.random() < 0.6 else self.rng.choice(list(self.nodes))
        directions = [(node.node_id, other), (other, node.node_id)]
        self.rng.shuffle(directions)
        self.network.cut.update(directions[: self.rng.randint(1, 2)])

    def _heal(self, _node: Node) -> None:
        self.network.cut.clear()

    def _step_clock(self, node: Node) -> None:
        self.offsets[node.node_id] += self.rng.choice((-3000, -200, 200, 3000))

    def _flush(self, node: Node) -> None:
        if node.alive:
            node.log.flush()

    def _save(self, node: Node) -> None:
        if node.alive:
            node.log.save_high_watermark()

    def _begin_shutdown(self, node: Node) -> None:
        node.shutting_down = node.alive

    def _stop_cleanly(self, node: Node) -> None:
        if not node.shutting_down:
            return
        node.log.flush()
        node.log.save_high_watermark()
        node.log.crash()
        node.stop()
        incarnation = node.incarnation

        def start_again() -> None:
            if not node.alive and node.incarnation == incarnation:
                self._restart(node, clean=True)

        self.schedule.after(self.rng.randint(1, 200), start_again)

    def _elect(self, _node: Node) -> None:
        self.controller.elect()

    def _elect_twice(self, node: Node) -> None:
        """Elect a leader that the controller soon takes for dead, while the old leader and a follower miss it."""
        others = [each for each in self.nodes if each != node.node_id]
        follower = self.rng.choice([each for each in others if each != self.controller.partition.leader] or others)
        missed = {(CONTROLLER, follower)}
        leader = {(CONTROLLER, self.controller.partition.leader)}
        self.network.cut |= missed | leader
        self.controller.elect_replica(node.node_id)

        def isolate() -> None:
            if not self.calm:
                missed.update({(node.node_id, CONTROLLER), (CONTROLLER, node.node_id)})
                self.network.cut |= missed

        first = self.rng.randint(20, 120)
        self.schedule.after(first, isolate)
        second = first + SESSION_MS + self.rng.randint(20, 100)
        third = second + self.rng.randint(0, 100)
        self.schedule.after(second, lambda: self._uncut(leader))
        self.schedule.after(third, lambda: self._uncut({(CONTROLLER, follower)}))
        self.schedule.after(third + self.rng.randint(30, 200), lambda: self._uncut(missed))

    def _uncut(self, links: set[tuple[int, int]]) -> None:
        self.network.cut -= links

    def _reassign(self, _node: Node) -> None:
        self.controller.reassign(self.rng.sample(list(self.nodes), 3))

    def _delete_records(self, node: Node) -> None:
        if node.alive and node.partition.is_leader:
            node.log.delete_records(self.rng.randint(0, node.log.high_watermark))


def _members(request: AlterPartitionRequest) -> list[tuple[int, int]]:
    """Return the members of the proposed ISRs, with their broker epochs."""
    return [
        (member.broker_id, member.broker_epoch)
        for topic in request.topics
        for one in topic.partitions
        for member in one.new_isr_with_epochs
    ]
