"""The assignors of a member and its rebalance protocol: the option partition_assignment_strategy.

An assignor is given by Kafka's name, by the name of the Java client's class, or as an object or class. Several
assignors are a preference: the group uses one that all members support. The rebalance protocol must suit whichever is
chosen, so it is the best one that all the member's assignors support: eager with the default (range,
cooperative-sticky). To change to cooperative rebalancing, restart all members with that pair first, then all with
cooperative-sticky alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kclient.assignors import (
    COOPERATIVE,
    Assignor,
    CooperativeStickyAssignor,
    RangeAssignor,
    RebalanceProtocol,
    RoundRobinAssignor,
    StickyAssignor,
)
from kclient.errors import ConfigError

_BUILT_IN: tuple[type[Assignor], ...] = (
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
    CooperativeStickyAssignor,
)
_BY_NAME: Mapping[str, type[Assignor]] = {
    key: kind
    for kind in _BUILT_IN
    for key in (kind.name, f"org.apache.kafka.clients.consumer.{kind.__name__}", kind.__name__)
}


class Strategy:
    """The assignors of one member.

    Parameters:
        choice: the value of the option.

    Attributes:
        assignors: by name, in order of preference.
        cooperative: whether the member keeps its partitions through a rebalance.

    Raises:
        ConfigError: there is no assignor, one is invalid, or they share no rebalance protocol.
    """

    def __init__(self, choice: str | Sequence[Any]) -> None:
        if not isinstance(choice, str | Sequence):
            raise ConfigError(f"partition_assignment_strategy must be a list of assignors, not {choice!r}")
        given: Iterable[Any] = [part.strip() for part in choice.split(",")] if isinstance(choice, str) else choice
        found = [_assignor(one) for one in given]
        self.assignors = {assignor.name: assignor for assignor in found}
        if not found or len(self.assignors) != len(found):
            raise ConfigError(f"partition_assignment_strategy must name assignors, each once, not {choice!r}")
        common = set(RebalanceProtocol).intersection(*(assignor.protocols for assignor in found))
        if not common:
            names = ", ".join(self.assignors)
            raise ConfigError(f"partition_assignment_strategy: {names} share no rebalance protocol")
        self.cooperative = max(common) is COOPERATIVE


def _assignor(one: Any) -> Assignor:
    if isinstance(one, str):
        if one not in _BY_NAME:
            names = ", ".join(repr(kind.name) for kind in _BUILT_IN)
            raise ConfigError(
                f"partition_assignment_strategy: there is no assignor {one!r}; there are {names}, and your own objects"
            )
        one = _BY_NAME[one]
    if inspect.isclass(one) and issubclass(one, Assignor):
        try:
            one = one()
        except TypeError as error:
            raise ConfigError(
                f"partition_assignment_strategy: {one.__name__} is a class that cannot be called without arguments; "
                f"give an object of it ({error})"
            ) from error
    if not isinstance(one, Assignor):
        raise ConfigError(
            f"partition_assignment_strategy: an assignor is a name or an object of a class that derives from "
            f"kclient.assignors.Assignor, not {one!r}"
        )
    if not isinstance(getattr(one, "name", None), str):
        raise ConfigError(
            f'partition_assignment_strategy: {type(one).__name__} has no name. Give the class one, as name = "mine"; '
            "the members of a group agree on an assignor by its name."
        )
    return one
