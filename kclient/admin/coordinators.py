"""Requests to the coordinators of groups or transactional ids, several at once; a coordinator that moves or loads is
looked up again.

Elsewhere: the requests themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from kclient.admin.core import AdminCore, Outcomes
from kclient.errors import KafkaError, error_from_code
from kclient.net.coordinator import GROUP
from kclient.net.deadline import Deadline
from kclient.net.manager import ANY_NODE
from kclient.net.operation import Operation
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kclient.types import Node

K = TypeVar("K")
R = TypeVar("R")

_SEVERAL_FROM = 4


def at_coordinators(
    core: AdminCore,
    keys: Iterable[str],
    ask: Callable[[Node, list[str]], Operation[Outcomes[str, R]]],
    deadline: Deadline,
    key_type: int = GROUP,
) -> Operation[dict[str, R]]:
    """Ask each coordinator about its keys (groups or transactional ids); return the results by key.

    Raises:
        AdminError: some keys failed.
    """

    def attempt(pending: list[str]) -> Operation[Outcomes[str, R]]:
        found = yield from _coordinators(core, pending, key_type, deadline)
        by_node: dict[Node, list[str]] = {}
        errors: dict[str, KafkaError] = {}
        for key in pending:
            coordinator = found.get(key, _unanswered(key))
            if isinstance(coordinator, KafkaError):
                errors[key] = coordinator
            else:
                by_node.setdefault(coordinator, []).append(key)
        answered = yield from core.gather({node: ask(node, asked) for node, asked in by_node.items()}, by_node)
        return {**errors, **answered}

    return (yield from core.keyed(keys, attempt, deadline))


def at_coordinator(
    core: AdminCore,
    group: str,
    keys: Iterable[K],
    ask: Callable[[Node, list[K]], Operation[Outcomes[K, R]]],
    deadline: Deadline,
) -> Operation[dict[K, R]]:
    """Ask the coordinator of one group about several keys of it; return the results by key.

    Raises:
        AdminError: some of them failed.
    """

    def attempt(pending: list[K]) -> Operation[Outcomes[K, R]]:
        found = yield from _coordinators(core, [group], GROUP, deadline)
        coordinator = found.get(group, _unanswered(group))
        if isinstance(coordinator, KafkaError):
            return dict.fromkeys(pending, coordinator)
        return (yield from core.gather({group: ask(coordinator, pending)}, {group: pending}))

    return (yield from core.keyed(keys, attempt, deadline))


def _coordinators(
    core: AdminCore, keys: list[str], key_type: int, deadline: Deadline
) -> Operation[Outcomes[str, Node]]:
    """Look up the coordinator of each key: all in one request from version 4 on (KIP-699), before that one by one."""
    found: Outcomes[str, Node] = {}
    left = list(keys)
    while left:

        def build(version: int, left: list[str] = left) -> FindCoordinatorRequest:
            if version < _SEVERAL_FROM:
                return FindCoordinatorRequest(key=left[0], key_type=key_type)
            return FindCoordinatorRequest(coordinator_keys=left, key_type=key_type)

        answer: FindCoordinatorResponse = yield from core.request_until_answered(
            ANY_NODE, FindCoordinatorRequest, build, deadline
        )
        if answer.coordinators:
            return {one.key: _node(one) for one in answer.coordinators}
        found[left[0]] = _node(answer)
        left = left[1:]
    return found


def _unanswered(key: str) -> KafkaError:
    return KafkaError(f"the broker's response did not contain the coordinator of {key}")


def _node(answer: FindCoordinatorResponse | FindCoordinatorResponse.Coordinator) -> Node | KafkaError:
    if answer.error_code:
        return error_from_code(answer.error_code, answer.error_message, api="FindCoordinator")
    return Node(answer.node_id, answer.host, answer.port)
