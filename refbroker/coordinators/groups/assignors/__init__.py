"""The assignors of the consumer protocol, which run on the broker: `uniform` and `range`, as Kafka 4.3 has them.

Pure: what members subscribe to and have, and how many partitions topics have, go in; what each member is to have
comes out. Neither looks at racks, as in Kafka 4.3. Given the same group they answer what Kafka's answer, partition by
partition; only where those go through Java's hash tables the order here is that of member ids and of topics as given,
so that a restart changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from refbroker.coordinators.groups.assignors.range import assign_range
from refbroker.coordinators.groups.assignors.spec import Assignment, GroupSpec
from refbroker.coordinators.groups.assignors.uniform import assign_uniform

Assignor = Callable[[GroupSpec], dict[str, Assignment]]

ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
"""The assignors by the names that clients ask for."""
