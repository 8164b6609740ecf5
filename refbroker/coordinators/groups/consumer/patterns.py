"""Regular expressions of topics in consumer groups, which the coordinator matches (KIP-848).

A pattern must match the whole name of a topic. If its syntax is not RE2's, the error is INVALID_REGULAR_EXPRESSION.

A new pattern is compiled in the heartbeat that contains it, and resolved in a separate operation after it. The matching
topics are stored, and the group epoch is incremented if they have changed. All patterns of a group are resolved again
when a heartbeat finds new topics in the metadata, at most every ten seconds, and at least every ten minutes, as in
Kafka. Deleted topics leave the assignment immediately, and the stored topics at the next resolution.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Iterable

from kclient.errors import InvalidRegularExpressionError
from refbroker.coordinators.groups.consumer.group import ConsumerGroup, ResolvedPattern
from refbroker.coordinators.groups.consumer.member import ConsumerMember
from refbroker.coordinators.groups.consumer.records import epoch_record, pattern_record, pattern_tombstone
from refbroker.coordinators.groups.consumer.topics import GroupTopics
from refbroker.coordinators.groups.coordinator_timer import NOTHING, CoordinatorTimer, Result
from refbroker.coordinators.patterns import compile_pattern
from refbroker.coordinators.records import CoordinatorRecord
from refbroker.coordinators.runtime import CoordinatorResult
from refbroker.metrics.counters import GroupStats

logger = logging.getLogger(__name__)

WHAT = "SubscribedTopicRegex"
SHORTEST_INTERVAL_MS = 10_000
LONGEST_INTERVAL_MS = 600_000


class PatternChange(enum.Enum):
    """The effect of a heartbeat on the pattern of its member."""

    NONE = "none"
    CHANGED = "changed"
    CHANGED_AND_RESOLVED = "changed, and what it matches is known"


class Patterns:
    """The patterns of the consumer groups of a partition.

    Parameters:
        find: returns a consumer group by its id.
        timer: the clock, and operations at later times.
        topics: the topics of the cluster.
        stats: counts rebalances.
    """

    def __init__(
        self,
        find: Callable[[str], ConsumerGroup | None],
        timer: CoordinatorTimer,
        topics: GroupTopics,
        stats: GroupStats,
    ) -> None:
        self._find = find
        self._stats = stats
        self._timer = timer
        self._topics = topics
        self._resolving: set[str] = set()

    def update(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        records: list[CoordinatorRecord],
        may_see: Callable[[str], bool],
    ) -> PatternChange:
        """Apply the pattern of a heartbeat, and resolve the group's patterns if necessary.

        Parameters:
            may_see: whether the client may describe a topic; as in Kafka, that of the client whose heartbeat begins the
                resolution counts, for the patterns of all members.

        Raises:
            InvalidRegularExpressionError: the pattern is invalid.
        """
        change, is_new = PatternChange.NONE, False
        counts = group.pattern_counts()
        if updated.pattern != member.pattern:
            change = PatternChange.CHANGED
            if member.pattern and counts[member.pattern] == 1:
                records.append(pattern_tombstone(group.group_id, member.pattern))
            if not updated.pattern or (counts[updated.pattern] and updated.pattern in group.patterns):
                change = PatternChange.CHANGED_AND_RESOLVED
            elif not counts[updated.pattern]:
                compile_pattern(WHAT, updated.pattern)
                is_new = True
        if (counts or is_new) and group.group_id not in self._resolving:
            wanted = set(group.pattern_counts(group.members_with(updated).values()))
            if wanted and self._is_due(group, wanted, is_new):
                self._begin(group.group_id, wanted, may_see)
        return change

    def _is_due(self, group: ConsumerGroup, wanted: set[str], is_new: bool) -> bool:
        last = next(iter(group.patterns.values()), None)
        if last is None:
            return True
        now = self._timer.now()
        if now <= last.timestamp_ms + SHORTEST_INTERVAL_MS:
            return False
        return (
            is_new
            or len(wanted) != len(group.patterns)
            or last.version < self._topics.version_with_new_topics
            or now > last.timestamp_ms + LONGEST_INTERVAL_MS
        )

    def _begin(self, group_id: str, wanted: set[str], may_see: Callable[[str], bool]) -> None:
        self._resolving.add(group_id)
        self._timer.schedule(f"patterns {group_id}", 0, lambda: self._resolve(group_id, wanted, may_see))

    def _resolve(self, group_id: str, wanted: set[str], may_see: Callable[[str], bool]) -> Result:
        self._resolving.discard(group_id)
        group = self._find(group_id)
        if group is None:
            return NOTHING
        counts = group.pattern_counts()
        names = list(filter(may_see, self._topics.names()))
        found = {
            pattern: ResolvedPattern(matching(pattern, names), self._topics.version, self._timer.now())
            for pattern in sorted(wanted)
            # Its member may have left in the meantime.
            if counts[pattern]
        }
        records = [pattern_record(group_id, pattern, resolved) for pattern, resolved in found.items()]
        changed = any(
            resolved.topics != group.patterns.get(pattern, ResolvedPattern()).topics
            for pattern, resolved in found.items()
        )
        by_name = frozenset().union(*(member.topics for member in group.members.values()))
        known = {**group.patterns, **found}
        topics = by_name.union(*(known[pattern].topics for pattern in counts if pattern in known))
        metadata_hash = self._topics.hash_of(topics)
        if changed or metadata_hash != group.metadata_hash:
            epoch = group.epoch + 1
            records.append(epoch_record(group_id, epoch, metadata_hash))
            logger.info("[Group %s] Bumped group epoch to %d for its regular expressions.", group_id, epoch)
            self._stats.consumer_rebalances += 1
            group.topics_checked(epoch)
        return CoordinatorResult(records, None)


def matching(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """Return the names that a pattern matches entirely."""
    try:
        compiled = compile_pattern(WHAT, pattern)
    except InvalidRegularExpressionError as error:
        # It was compiled when it arrived, possibly by Apache Kafka: see `regex` for what Kafka accepts in
        # addition.
        logger.error("%s Ignoring it.", error)
        return frozenset()
    return frozenset(name for name in names if compiled.fullmatch(name))
