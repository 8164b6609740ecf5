"""The assignors of the consumer protocol, which run on the broker: `uniform` and `range`, as Kafka 4.3 has them.

They are pure functions of the subscriptions and partitions of the members, and of the number of partitions of each
topic; the result is the target assignment. Neither considers racks, as in Kafka 4.3. For the same group they return the
same assignment as Kafka's, with one exception: where Kafka's order is that of Java's hash tables, members are in the
order of their ids here, and topics in the given order, so that a restart does not change the assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from refbroker.coordinators.groups.assignors.range import assign_range
from refbroker.coordinators.groups.assignors.spec import Assignment, GroupSpec
from refbroker.coordinators.groups.assignors.uniform import assign_uniform

Assignor = Callable[[GroupSpec], dict[str, Assignment]]

ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
"""The assignors by the names that clients ask for."""
