"""A classic group: its members, generation and state, and their rules.

It does nothing by itself: `machine` handles requests and timers. Members are kept in the order in which they joined, so
that the first one leads, and the next one after it has left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence

from kclient.errors import FencedInstanceIdError, ProtocolError, UnknownMemberIdError
from kclient.protocol.consumer_protocol import ConsumerProtocolSubscription
from kclient.protocol.messages.join_group import JoinGroupResponse
from kclient.protocol.messages.records.consumer_offsets import GroupMetadataKey, GroupMetadataValue
from kclient.protocol.messages.sync_group import SyncGroupResponse
from refbroker.coordinators.groups.classic.member import AnswerJoin, ClassicMember, GroupProtocol
from refbroker.coordinators.groups.classic.states import STATES, GroupEvent, GroupState
from refbroker.coordinators.records import CoordinatorRecord

CONSUMER = "consumer"
GROUP_METADATA_VERSION = 3
NO_TIMESTAMP = -1
_VERSION_SIZE = 2


class ClassicGroup:
    """A classic group.

    Parameters:
        clock: milliseconds since the epoch.
        state: the initial state; a group from the log may have members.

    Attributes:
        state, previous_state: the current and the previous state.
        state_timestamp_ms: the time of the last change; None if an old record does not have it.
        generation: counts the rebalances.
        protocol_type: the type of its members, None before the first one.
        protocol: the protocol that the members have agreed on.
        leader: the member that assigns.
        members: by id, in the order in which they joined.
        static_members: instance id -> member id.
        pending_members: ids that were given out, and whose members have not joined with them yet.
        pending_sync: the members of this generation that have not asked for their assignment yet.
        new_member_added: whether somebody has joined since the initial delay was last extended.
        subscribed_topics: of all members, None when they cannot be known.
    """

    def __init__(self, group_id: str, clock: Callable[[], int], state: GroupState = GroupState.EMPTY) -> None:
        self.group_id = group_id
        self.state = state
        self.previous_state = GroupState.DEAD
        self.state_timestamp_ms: int | None = clock()
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        self.pending_members: set[str] = set()
        self.pending_sync: set[str] = set()
        self.new_member_added = False
        self.subscribed_topics: frozenset[str] | None = None
        self._clock = clock
        # The number of members with each protocol.
        self._supported: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"ClassicGroup({self.group_id!r}, {self.state.value}, generation {self.generation}, {len(self.members)})"

    # State

    def apply(self, event: GroupEvent) -> None:
        """Enter the state that an event leads to.

        Raises:
            IllegalStateError: the event is not possible in this state.
        """
        self.previous_state, self.state = self.state, STATES.next_state(self.state, event, self.group_id)
        self.state_timestamp_ms = self._clock()

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    @property
    def is_simple(self) -> bool:
        """Whether it only has offsets, and never had a member."""
        return self.protocol_type is None and self.is_empty and not self.pending_members

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether its members are consumers, whose subscriptions can be decoded."""
        return self.protocol_type == CONSUMER

    @property
    def assignments(self) -> dict[str, bytes]:
        """The assignment of each member, by member id."""
        return {member_id: member.assignment for member_id, member in self.members.items()}

    @property
    def awaiting_join(self) -> int:
        """The number of members that wait for the end of the rebalance."""
        return sum(member.is_awaiting_join for member in self.members.values())

    @property
    def has_all_members_joined(self) -> bool:
        return not self.pending_members and all(member.is_awaiting_join for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member may be subscribed to a topic."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def begin_generation(self) -> None:
        """Increment the generation and choose the protocol; without members the group is empty."""
        self.generation += 1
        self.protocol = self.select_protocol() if self.members else None
        self.subscribed_topics = self.read_subscriptions()
        self.apply(GroupEvent.MEMBERS_JOINED if self.members else GroupEvent.NO_MEMBERS_LEFT)
        self.pending_sync.clear()

    # Members

    def add(self, member: ClassicMember, answer: AnswerJoin | None = None) -> None:
        """Add a member; the first one leads."""
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.member_id
        member.answer_join = answer
        self.members[member.member_id] = member
        self._supported.update(protocol_names(member.protocols))
        self.pending_members.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member, or an id that has not joined; the longest-standing member becomes the leader."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._supported.subtract(protocol_names(member.protocols))
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_members.discard(member_id)
        self.pending_sync.discard(member_id)

    def update(
        self,
        member: ClassicMember,
        protocols: Sequence[GroupProtocol],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        answer: AnswerJoin | None,
    ) -> None:
        """Apply the data of a member that joins again."""
        self._supported.subtract(protocol_names(member.protocols))
        member.protocols = protocols
        self._supported.update(protocol_names(protocols))
        member.rebalance_timeout_ms, member.session_timeout_ms = rebalance_timeout_ms, session_timeout_ms
        member.answer_join = answer

    def replace_static(self, instance_id: str, member_id: str) -> ClassicMember:
        """Replace a static member by the one that returned; the former one is fenced if it waits."""
        old = self.members[self.static_members[instance_id]]
        fenced = FencedInstanceIdError.code
        self.complete_join(old, JoinGroupResponse(member_id=old.member_id, protocol_name=None, error_code=fenced))
        self.complete_sync(old, SyncGroupResponse(error_code=fenced))
        new = ClassicMember(
            member_id,
            instance_id,
            old.client_id,
            old.client_host,
            old.rebalance_timeout_ms,
            old.session_timeout_ms,
            old.protocol_type,
            old.protocols,
            old.assignment,
        )
        del self.members[old.member_id]
        self.members[member_id] = new
        if self.leader == old.member_id:
            self.leader = member_id
        self.static_members[instance_id] = member_id
        return new

    def elect_joined_leader(self) -> bool:
        """Make a member the leader that has joined; return False if none has."""
        leader = None if self.leader is None else self.members.get(self.leader)
        if leader is None:
            return False
        if not leader.is_awaiting_join:
            joined = next((member.member_id for member in self.members.values() if member.is_awaiting_join), None)
            if joined is None:
                return False
            self.leader = joined
        return True

    def check_member(self, member_id: str, instance_id: str | None) -> None:
        """Check that this is a member of the group.

        Raises:
            UnknownMemberIdError: it is not a member.
            FencedInstanceIdError: another one has its instance id.
        """
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                raise UnknownMemberIdError
            if known != member_id:
                raise FencedInstanceIdError
        if member_id not in self.members:
            raise UnknownMemberIdError

    def complete_join(self, member: ClassicMember, response: JoinGroupResponse) -> None:
        """Answer a member that waits for the end of the rebalance."""
        answer, member.answer_join = member.answer_join, None
        if answer is not None:
            answer(response)

    def complete_sync(self, member: ClassicMember, response: SyncGroupResponse) -> bool:
        """Answer a member that waits for its assignment; return False if it does not wait."""
        answer, member.answer_sync = member.answer_sync, None
        if answer is None:
            return False
        answer(response)
        return True

    # Protocols

    def supports(self, protocol_type: str, protocols: Collection[str]) -> bool:
        """Return whether a client with these protocols can be a member."""
        if self.is_empty:
            return bool(protocol_type) and bool(protocols)
        count = len(self.members)
        return self.protocol_type == protocol_type and any(self._supported[name] == count for name in protocols)

    def select_protocol(self) -> str:
        """Return the protocol with the most votes; each member votes for its first one that all members have."""
        candidates = {name for name, count in self._supported.items() if count == len(self.members)}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def read_subscriptions(self) -> frozenset[str] | None:
        """Return the topics of all members; None if they are not consumers or their metadata is malformed."""
        if not self.uses_consumer_protocol:
            return None
        if not self.members:
            return frozenset()
        if self.protocol is None:
            return None
        topics: set[str] = set()
        try:
            for member in self.members.values():
                # Each version begins like the one before, so the oldest decoder reads all of them.
                data = memoryview(member.metadata(self.protocol))[_VERSION_SIZE:]
                topics.update(ConsumerProtocolSubscription.decode_prefix(data, 0)[0].topics)
        except ProtocolError:
            return None
        return frozenset(topics)

    def member_list(self) -> list[JoinGroupResponse.JoinGroupResponseMember]:
        """Return the members as sent to the leader."""
        return [
            JoinGroupResponse.JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata(self.protocol or ""),
            )
            for member in self.members.values()
        ]

    # Records

    def record(self, assignments: dict[str, bytes]) -> CoordinatorRecord:
        """Return the record of this generation.

        Parameters:
            assignments: the assignments by member id.
        """
        return self._record(
            GroupMetadataValue(
                protocol_type=self.protocol_type or "",
                generation=self.generation,
                protocol=self.protocol,
                leader=self.leader,
                members=[
                    GroupMetadataValue.MemberMetadata(
                        member_id=member.member_id,
                        group_instance_id=member.instance_id,
                        client_id=member.client_id,
                        client_host=member.client_host,
                        rebalance_timeout=member.rebalance_timeout_ms,
                        session_timeout=member.session_timeout_ms,
                        subscription=member.metadata(self.protocol or ""),
                        assignment=assignments[member.member_id],
                    )
                    for member in self.members.values()
                ],
            )
        )

    def empty_record(self) -> CoordinatorRecord:
        """Return the record of a group without any members yet."""
        return self._record(GroupMetadataValue(protocol=None, leader=None))

    def _record(self, value: GroupMetadataValue) -> CoordinatorRecord:
        value.current_state_timestamp = NO_TIMESTAMP if self.state_timestamp_ms is None else self.state_timestamp_ms
        return CoordinatorRecord(GroupMetadataKey(group=self.group_id), value, GROUP_METADATA_VERSION)

    @classmethod
    def from_record(cls, group_id: str, value: GroupMetadataValue, clock: Callable[[], int]) -> ClassicGroup:
        """Return the group of a record: stable, or empty."""
        group = cls(group_id, clock, GroupState.STABLE if value.members else GroupState.EMPTY)
        timestamp = value.current_state_timestamp
        group.state_timestamp_ms = None if timestamp == NO_TIMESTAMP else timestamp
        group.generation = value.generation
        group.protocol_type = value.protocol_type or None
        group.protocol, group.leader = value.protocol, value.leader
        for member in value.members:
            # Records of brokers before 0.10.1 have no rebalance timeout.
            without = member.rebalance_timeout == -1
            group.add(
                ClassicMember(
                    member.member_id,
                    member.group_instance_id,
                    member.client_id,
                    member.client_host,
                    member.session_timeout if without else member.rebalance_timeout,
                    member.session_timeout,
                    value.protocol_type,
                    [GroupProtocol(value.protocol or "", member.subscription)],
                    member.assignment,
                )
            )
        group.subscribed_topics = group.read_subscriptions()
        return group


def tombstone(group_id: str) -> CoordinatorRecord:
    """Return the tombstone of a classic group."""
    return CoordinatorRecord(GroupMetadataKey(group=group_id))


def protocol_names(protocols: Sequence[GroupProtocol]) -> set[str]:
    """Return the names of protocols."""
    return {protocol.name for protocol in protocols}
