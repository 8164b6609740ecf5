"""The identity that a group member sends with its requests, in either protocol."""

from __future__ import annotations

from typing import NamedTuple

NO_GENERATION = -1
UNKNOWN_MEMBER_ID = ""


class Generation(NamedTuple):
    """The generation or epoch, member id and instance id that a member sends with every group request.

    Attributes:
        id: the group's generation, which grows with every rebalance; with the consumer protocol the member's epoch.
        member_id: the member's id.
        instance_id: the group_instance_id of a static member, otherwise None.
        protocol: the assignor the members agreed on; None with the consumer protocol.
    """

    id: int
    member_id: str
    instance_id: str | None
    protocol: str | None
