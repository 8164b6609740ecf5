"""Asks the coordinators of groups: each group its own, several at once; one that moves or loads is looked for again.

Leaves out what they are asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from kclient.admin.core import AdminCore, Outcomes
from kclient.admin.deadline import Deadline
from kclient.errors import KafkaError, error_from_code
from kclient.net.manager import ANY_NODE
from kclient.net.operation import Operation
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kclient.types import Node

K = TypeVar("K")
R = TypeVar("R")

_SEVERAL_FROM = 4


def at_coordinators(
    core: AdminCore,
    groups: Iterable[str],
    ask: Callable[[Node, list[str]], Operation[Outcomes[str, R]]],
    deadline: Deadline,
) -> Operation[dict[str, R]]:
    """Ask each coordinator about its groups; the results are by group.

    Raises:
        AdminError: some groups failed.
    """

    def attempt(pending: list[str]) -> Operation[Outcomes[str, R]]:
        found = yield from _coordinators(core, pending, deadline)
        by_node: dict[Node, list[str]] = {}
        errors: dict[str, KafkaError] = {}
        for group in pending:
            coordinator = found.get(group, KafkaError(f"the broker's answer left out the coordinator of {group}"))
            if isinstance(coordinator, KafkaError):
                errors[group] = coordinator
            else:
                by_node.setdefault(coordinator, []).append(group)
        answered = yield from core.gather({node: ask(node, asked) for node, asked in by_node.items()}, by_node)
        return {**errors, **answered}

    return (yield from core.keyed(groups, attempt, deadline))


def at_coordinator(
    core: AdminCore,
    group: str,
    keys: Iterable[K],
    ask: Callable[[Node, list[K]], Operation[Outcomes[K, R]]],
    deadline: Deadline,
) -> Operation[dict[K, R]]:
    """Ask the coordinator of one group about several things of it; the results are by thing.

    Raises:
        AdminError: some of them failed.
    """

    def attempt(pending: list[K]) -> Operation[Outcomes[K, R]]:
        found = yield from _coordinators(core, [group], deadline)
        coordinator = found.get(group, KafkaError(f"the broker's answer left out the coordinator of {group}"))
        if isinstance(coordinator, KafkaError):
            return dict.fromkeys(pending, coordinator)
        return (yield from core.gather({group: ask(coordinator, pending)}, {group: pending}))

    return (yield from core.keyed(keys, attempt, deadline))


def _coordinators(core: AdminCore, groups: list[str], deadline: Deadline) -> Operation[Outcomes[str, Node]]:
    """Who coordinates each group: all in one request from version 4 on (KIP-699), before that one by one."""
    found: Outcomes[str, Node] = {}
    left = list(groups)
    while left:

        def build(version: int, left: list[str] = left) -> FindCoordinatorRequest:
            if version < _SEVERAL_FROM:
                return FindCoordinatorRequest(key=left[0])
            return FindCoordinatorRequest(coordinator_keys=left)

        answer: FindCoordinatorResponse = yield from core.ask(ANY_NODE, FindCoordinatorRequest, build, deadline)
        if answer.coordinators:
            return {one.key: _node(one) for one in answer.coordinators}
        found[left[0]] = _node(answer)
        left = left[1:]
    return found


def _node(answer: FindCoordinatorResponse | FindCoordinatorResponse.Coordinator) -> Node | KafkaError:
    if answer.error_code:
        return error_from_code(answer.error_code, answer.error_message, api="FindCoordinator")
    return Node(answer.node_id, answer.host, answer.port)
