"""What follows from each answer of a coordinator, as tables; a code that is not listed is raised.

Elsewhere: doing it (`classic.member`, `consumer_protocol.member`).
"""

from __future__ import annotations

import enum

from kclient import errors as e


class Outcome(enum.Enum):
    """What a member does about an error code."""

    AGAIN = "the same request again after a pause"
    MOVED = "look up the coordinator, then again"
    REBALANCE = "join again: the group rebalances"
    REFUSED = "join again after a pause; if that does not help, the owner has to hear of it"
    TAKE_ID = "join again with the member id that the coordinator gave"
    LOST = "the coordinator does not know this member: begin anew without an id; what it had is lost"
    LATE = "the group went on without this member: keep the id; what it had is lost"
    FENCED = "another member uses the same group_instance_id: the end"
    RAISE = "the owner has to hear of it"
    FATAL = "this can be no member: the end"


_EVERYWHERE = {
    e.CoordinatorNotAvailableError.code: Outcome.MOVED,
    e.NotCoordinatorError.code: Outcome.MOVED,
    e.CoordinatorLoadInProgressError.code: Outcome.AGAIN,
    e.UnknownMemberIdError.code: Outcome.LOST,
    e.IllegalGenerationError.code: Outcome.LATE,
    e.FencedInstanceIdError.code: Outcome.FENCED,
    e.RebalanceInProgressError.code: Outcome.REBALANCE,
}

# RAISE by default: INCONSISTENT_GROUP_PROTOCOL, INVALID_SESSION_TIMEOUT, INVALID_GROUP_ID, GROUP_MAX_SIZE_REACHED,
# GROUP_AUTHORIZATION_FAILED, UNSUPPORTED_VERSION and what nobody foresaw.
JOIN = _EVERYWHERE | {
    e.MemberIdRequiredError.code: Outcome.TAKE_ID,
    # The coordinator could not store the group: it may with the next attempt.
    e.RebalanceInProgressError.code: Outcome.AGAIN,
}
SYNC = _EVERYWHERE | {
    # Kafka never says so. The mock cluster of librdkafka does to a member that asks later than the leader, and joining
    # again helps; what else says so may do it always.
    e.InvalidRequestError.code: Outcome.REFUSED,
}
HEARTBEAT = _EVERYWHERE

# Of the consumer protocol, FATAL by default: INVALID_REQUEST, GROUP_MAX_SIZE_REACHED, GROUP_AUTHORIZATION_FAILED,
# UNSUPPORTED_ASSIGNOR, UNSUPPORTED_VERSION, INVALID_REGULAR_EXPRESSION, UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID,
# GROUP_ID_NOT_FOUND when it joins, and what nobody foresaw, unless it is retriable.
CONSUMER_HEARTBEAT = {
    e.CoordinatorNotAvailableError.code: Outcome.MOVED,
    e.NotCoordinatorError.code: Outcome.MOVED,
    e.CoordinatorLoadInProgressError.code: Outcome.AGAIN,
    # Said of commits: the epoch has grown, and the answer that tells it was lost or is on its way.
    e.StaleMemberEpochError.code: Outcome.AGAIN,
    e.UnknownMemberIdError.code: Outcome.LOST,
    e.FencedMemberEpochError.code: Outcome.LOST,
    # Permissions may come; until then nothing is assigned of that topic.
    e.TopicAuthorizationError.code: Outcome.RAISE,
}
