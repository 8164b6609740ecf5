"""The reactions to the error codes of a coordinator, as tables; a code that is not listed is raised.

Elsewhere: the reactions themselves (`classic.member`, `consumer_protocol.member`).
"""

from __future__ import annotations

import enum

from kclient import errors as e


class Outcome(enum.Enum):
    """The reaction of a member to an error code."""

    AGAIN = "the same request again after a pause"
    MOVED = "look up the coordinator, then again"
    REBALANCE = "join again: the group rebalances"
    REFUSED = "join again after a pause; if that does not help, raise the error from the next call"
    TAKE_ID = "join again with the member id that the coordinator gave"
    LOST = "the coordinator does not know this member: join again without an id; the assignment is lost"
    LATE = "the group has continued without this member: keep the id; the assignment is lost"
    FENCED = "another member uses the same group_instance_id: final"
    RAISE = "raise the error from the next call"
    FATAL = "this cannot be a member: final"


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
# GROUP_AUTHORIZATION_FAILED, UNSUPPORTED_VERSION and unknown errors.
JOIN = _EVERYWHERE | {
    e.MemberIdRequiredError.code: Outcome.TAKE_ID,
    # The coordinator could not store the group; the next attempt may succeed.
    e.RebalanceInProgressError.code: Outcome.AGAIN,
}
SYNC = _EVERYWHERE | {
    # Kafka never returns this. librdkafka's mock cluster does to a member that asks later than the leader, and joining
    # again helps; other brokers may return it permanently.
    e.InvalidRequestError.code: Outcome.REFUSED,
}
HEARTBEAT = _EVERYWHERE

# Of the consumer protocol, FATAL by default: INVALID_REQUEST, GROUP_MAX_SIZE_REACHED, GROUP_AUTHORIZATION_FAILED,
# UNSUPPORTED_ASSIGNOR, UNSUPPORTED_VERSION, INVALID_REGULAR_EXPRESSION, UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID,
# GROUP_ID_NOT_FOUND when it joins, and unknown errors, unless they are retriable.
CONSUMER_HEARTBEAT = {
    e.CoordinatorNotAvailableError.code: Outcome.MOVED,
    e.NotCoordinatorError.code: Outcome.MOVED,
    e.CoordinatorLoadInProgressError.code: Outcome.AGAIN,
    # For commits: the epoch has grown, and the response with the new one was lost or is on its way.
    e.StaleMemberEpochError.code: Outcome.AGAIN,
    e.UnknownMemberIdError.code: Outcome.LOST,
    e.FencedMemberEpochError.code: Outcome.LOST,
    # Permissions may be granted later; until then nothing is assigned of that topic.
    e.TopicAuthorizationError.code: Outcome.RAISE,
}
