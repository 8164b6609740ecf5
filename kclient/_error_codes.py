"""The errors of Kafka's protocol, one class per error code: a table in the form of classes.

Each class has its code, Kafka's name, whether a retry can help and whether the metadata needs a refresh, as Kafka 4.3
has them (`org.apache.kafka.common.protocol.Errors`), and says in a sentence what happened and what can be done. Users
import them from `kclient.errors`.
"""

from __future__ import annotations

from kclient._error_base import (
    AuthenticationError,
    AuthorizationError,
    BrokerError,
    InvalidMetadataError,
    KafkaTimeoutError,
)


class UnknownServerError(BrokerError, code=-1, name="UNKNOWN_SERVER_ERROR"):
    """The broker failed in an unexpected way while handling the request; see the broker's log."""


class OffsetOutOfRangeError(BrokerError, code=1, name="OFFSET_OUT_OF_RANGE"):
    """The offset lies outside the range of offsets the partition holds; seek to one that exists, or set
    auto_offset_reset.
    """


class CorruptRecordError(BrokerError, code=2, name="CORRUPT_MESSAGE", retriable=True):
    """A record batch failed its checksum or is malformed: it was damaged on the way or on disk, or its
    key is missing on a compacted topic.
    """


class UnknownTopicOrPartitionError(InvalidMetadataError, code=3, name="UNKNOWN_TOPIC_OR_PARTITION"):
    """The broker does not host this topic or partition; the topic may not exist or was just created, or the name is
    misspelt.
    """


class InvalidFetchSizeError(BrokerError, code=4, name="INVALID_FETCH_SIZE"):
    """The requested fetch size is not valid; use a positive number of bytes."""


class LeaderNotAvailableError(InvalidMetadataError, code=5, name="LEADER_NOT_AVAILABLE"):
    """The partition has no leader at the moment, as during an election."""


class NotLeaderOrFollowerError(InvalidMetadataError, code=6, name="NOT_LEADER_OR_FOLLOWER"):
    """The broker is no longer a replica of the partition; refreshed metadata names the new leader."""


class RequestTimedOutError(BrokerError, KafkaTimeoutError, code=7, name="REQUEST_TIMED_OUT", retriable=True):
    """The broker could not finish the request within its timeout."""


class BrokerNotAvailableError(BrokerError, code=8, name="BROKER_NOT_AVAILABLE"):
    """The broker is not available."""


class ReplicaNotAvailableError(InvalidMetadataError, code=9, name="REPLICA_NOT_AVAILABLE"):
    """The replica is not available on this broker at the moment."""


class RecordTooLargeError(BrokerError, code=10, name="MESSAGE_TOO_LARGE"):
    """The record or batch is larger than the broker or topic accepts; see max.message.bytes of the topic
    and max_request_size.
    """


class ControllerMovedError(BrokerError, code=11, name="STALE_CONTROLLER_EPOCH"):
    """The controller has moved to another broker."""


class OffsetMetadataTooLargeError(BrokerError, code=12, name="OFFSET_METADATA_TOO_LARGE"):
    """The metadata stored with the committed offset is longer than offset.metadata.max.bytes allows."""


class NetworkError(InvalidMetadataError, code=13, name="NETWORK_EXCEPTION"):
    """The broker disconnected before it received a response from another node."""


class CoordinatorLoadInProgressError(BrokerError, code=14, name="COORDINATOR_LOAD_IN_PROGRESS", retriable=True):
    """The coordinator is still loading the group's or transaction's state."""


class CoordinatorNotAvailableError(BrokerError, code=15, name="COORDINATOR_NOT_AVAILABLE", retriable=True):
    """The coordinator is not available at the moment, as while its partition has no leader."""


class NotCoordinatorError(BrokerError, code=16, name="NOT_COORDINATOR", retriable=True):
    """This broker is no longer the coordinator of the group or transaction; look it up again."""


class InvalidTopicError(BrokerError, code=17, name="INVALID_TOPIC_EXCEPTION"):
    """The topic name is not valid, or the topic is internal: names take up to 249 of the characters a-z
    A-Z 0-9 . _ -
    """


class RecordBatchTooLargeError(BrokerError, code=18, name="RECORD_LIST_TOO_LARGE"):
    """The batch is larger than a segment of the topic; lower batch_size or raise segment.bytes."""


class NotEnoughReplicasError(BrokerError, code=19, name="NOT_ENOUGH_REPLICAS", retriable=True):
    """Fewer replicas are in sync than min.insync.replicas asks for; nothing was written."""


class NotEnoughReplicasAfterAppendError(BrokerError, code=20, name="NOT_ENOUGH_REPLICAS_AFTER_APPEND", retriable=True):
    """The records were written, but to fewer in-sync replicas than min.insync.replicas asks for."""


class InvalidRequiredAcksError(BrokerError, code=21, name="INVALID_REQUIRED_ACKS"):
    """The value of acks is not one of 0, 1 and -1 (all)."""


class IllegalGenerationError(BrokerError, code=22, name="ILLEGAL_GENERATION"):
    """The member's generation of the group has ended; it has to join again."""


class InconsistentGroupProtocolError(BrokerError, code=23, name="INCONSISTENT_GROUP_PROTOCOL"):
    """The member's protocol type or assignors do not match those of the group; members must share at
    least one assignor.
    """


class InvalidGroupIdError(BrokerError, code=24, name="INVALID_GROUP_ID"):
    """The group id is empty or not valid."""


class UnknownMemberIdError(BrokerError, code=25, name="UNKNOWN_MEMBER_ID"):
    """The coordinator does not know this member, most often because its session timed out; it has to join again."""


class InvalidSessionTimeoutError(BrokerError, code=26, name="INVALID_SESSION_TIMEOUT"):
    """The session timeout lies outside the broker's group.min.session.timeout.ms and group.max.session.timeout.ms."""


class RebalanceInProgressError(BrokerError, code=27, name="REBALANCE_IN_PROGRESS"):
    """The group is rebalancing; join it again, or commit again once the rebalance is over."""


class InvalidCommitOffsetSizeError(BrokerError, code=28, name="INVALID_COMMIT_OFFSET_SIZE"):
    """The offset commit is larger than the broker accepts."""


class TopicAuthorizationError(AuthorizationError, code=29, name="TOPIC_AUTHORIZATION_FAILED"):
    """The client may not access the topic; ask for an ACL on it."""


class GroupAuthorizationError(AuthorizationError, code=30, name="GROUP_AUTHORIZATION_FAILED"):
    """The client may not access the group; ask for an ACL on it."""


class ClusterAuthorizationError(AuthorizationError, code=31, name="CLUSTER_AUTHORIZATION_FAILED"):
    """The client may not do this to the cluster; ask for an ACL on the cluster resource."""


class InvalidTimestampError(BrokerError, code=32, name="INVALID_TIMESTAMP"):
    """The record's timestamp is outside of what message.timestamp.before.max.ms and
    message.timestamp.after.max.ms of the topic accept.
    """


class UnsupportedSaslMechanismError(AuthenticationError, code=33, name="UNSUPPORTED_SASL_MECHANISM"):
    """The broker does not offer this SASL mechanism; sasl_mechanism must be one of its sasl.enabled.mechanisms."""


class IllegalSaslStateError(AuthenticationError, code=34, name="ILLEGAL_SASL_STATE"):
    """The request is not allowed in this state of the SASL exchange; client and listener disagree about
    security.protocol.
    """


class UnsupportedVersionError(BrokerError, code=35, name="UNSUPPORTED_VERSION", fatal=True):
    """The broker does not support the requested version of the API."""


class TopicExistsError(BrokerError, code=36, name="TOPIC_ALREADY_EXISTS"):
    """A topic with this name exists already."""


class InvalidPartitionsError(BrokerError, code=37, name="INVALID_PARTITIONS"):
    """The number of partitions is below 1, or not larger than the present one."""


class InvalidReplicationFactorError(BrokerError, code=38, name="INVALID_REPLICATION_FACTOR"):
    """The replication factor is below 1, or larger than the number of available brokers."""


class InvalidReplicaAssignmentError(BrokerError, code=39, name="INVALID_REPLICA_ASSIGNMENT"):
    """The replica assignment is not valid: it names unknown or repeated brokers, or has gaps."""


class InvalidConfigurationError(BrokerError, code=40, name="INVALID_CONFIG"):
    """The name or value of a configuration is not valid."""


class NotControllerError(BrokerError, code=41, name="NOT_CONTROLLER", retriable=True):
    """This broker is not the active controller."""


class InvalidRequestError(BrokerError, code=42, name="INVALID_REQUEST"):
    """The request is malformed or contradicts itself; the broker's log may say more."""


class UnsupportedForMessageFormatError(BrokerError, code=43, name="UNSUPPORTED_FOR_MESSAGE_FORMAT"):
    """The topic's message format does not support the request."""


class PolicyViolationError(BrokerError, code=44, name="POLICY_VIOLATION"):
    """The request does not satisfy a policy configured on the broker."""


class OutOfOrderSequenceError(BrokerError, code=45, name="OUT_OF_ORDER_SEQUENCE_NUMBER"):
    """The broker received a batch whose sequence number does not follow the last one: earlier records were lost or
    overtaken.
    """


class DuplicateSequenceError(BrokerError, code=46, name="DUPLICATE_SEQUENCE_NUMBER"):
    """The broker has these records already, and no longer knows their offset."""


class InvalidProducerEpochError(BrokerError, code=47, name="INVALID_PRODUCER_EPOCH"):
    """The producer's epoch is out of date: a newer producer with the same transactional id has started,
    or its transaction timed out.
    """


class InvalidTxnStateError(BrokerError, code=48, name="INVALID_TXN_STATE"):
    """The transaction is not in a state that allows the request: an earlier error or a bug in the
    application is the cause.
    """


class InvalidPidMappingError(BrokerError, code=49, name="INVALID_PRODUCER_ID_MAPPING"):
    """The transactional id has been given another producer id, most often since it expired; start a new producer."""


class InvalidTxnTimeoutError(BrokerError, code=50, name="INVALID_TRANSACTION_TIMEOUT"):
    """The transaction timeout is larger than the broker's transaction.max.timeout.ms."""


class ConcurrentTransactionsError(BrokerError, code=51, name="CONCURRENT_TRANSACTIONS", retriable=True):
    """Another request for the same transactional id is still in progress."""


class TransactionCoordinatorFencedError(BrokerError, code=52, name="TRANSACTION_COORDINATOR_FENCED", fatal=True):
    """The transaction coordinator was fenced by a newer one."""


class TransactionalIdAuthorizationError(AuthorizationError, code=53, name="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
    """The client may not use the transactional id; ask for an ACL on it."""


class SecurityDisabledError(BrokerError, code=54, name="SECURITY_DISABLED"):
    """The broker has no authorizer, so that ACLs cannot be read or changed."""


class OperationNotAttemptedError(BrokerError, code=55, name="OPERATION_NOT_ATTEMPTED"):
    """The operation was not attempted, since another one in the same request failed."""


class KafkaStorageError(InvalidMetadataError, code=56, name="KAFKA_STORAGE_ERROR"):
    """The broker could not read or write its disk; another replica may take over."""


class LogDirNotFoundError(BrokerError, code=57, name="LOG_DIR_NOT_FOUND"):
    """The broker does not have this log directory; describe_log_dirs shows those that it has."""


class SaslAuthenticationError(AuthenticationError, code=58, name="SASL_AUTHENTICATION_FAILED"):
    """The broker rejected the credentials; check sasl_mechanism, user name and password."""


class UnknownProducerIdError(BrokerError, code=59, name="UNKNOWN_PRODUCER_ID"):
    """The broker has no state of this producer, most often because its records were deleted by retention."""


class ReassignmentInProgressError(BrokerError, code=60, name="REASSIGNMENT_IN_PROGRESS"):
    """The partition is being reassigned already; wait until list_partition_reassignments no longer shows it, or cancel
    the reassignment.
    """


class DelegationTokenDisabledError(BrokerError, code=61, name="DELEGATION_TOKEN_AUTH_DISABLED"):
    """Delegation tokens are not enabled on the broker."""


class DelegationTokenNotFoundError(BrokerError, code=62, name="DELEGATION_TOKEN_NOT_FOUND"):
    """The broker does not know this delegation token."""


class DelegationTokenOwnerMismatchError(BrokerError, code=63, name="DELEGATION_TOKEN_OWNER_MISMATCH"):
    """The delegation token belongs to another principal."""


class UnsupportedByAuthenticationError(BrokerError, code=64, name="DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"):
    """Delegation tokens cannot be requested on this kind of connection; it needs SASL, and must not use a
    token itself.
    """


class DelegationTokenAuthorizationError(AuthorizationError, code=65, name="DELEGATION_TOKEN_AUTHORIZATION_FAILED"):
    """The client may not do this with delegation tokens; ask for an ACL."""


class DelegationTokenExpiredError(BrokerError, code=66, name="DELEGATION_TOKEN_EXPIRED"):
    """The delegation token has expired; renew it in time, or ask for a new one."""


class InvalidPrincipalTypeError(BrokerError, code=67, name="INVALID_PRINCIPAL_TYPE"):
    """The principal type is not supported."""


class GroupNotEmptyError(BrokerError, code=68, name="NON_EMPTY_GROUP"):
    """The group still has members; stop them first."""


class GroupIdNotFoundError(BrokerError, code=69, name="GROUP_ID_NOT_FOUND"):
    """The group does not exist."""


class FetchSessionIdNotFoundError(BrokerError, code=70, name="FETCH_SESSION_ID_NOT_FOUND", retriable=True):
    """The broker has dropped the fetch session; the next fetch starts a new one."""


class InvalidFetchSessionEpochError(BrokerError, code=71, name="INVALID_FETCH_SESSION_EPOCH", retriable=True):
    """The epoch of the fetch session does not match; the next fetch starts a new one."""


class ListenerNotFoundError(InvalidMetadataError, code=72, name="LISTENER_NOT_FOUND"):
    """The leader of the partition has no listener of the name this client connected to."""


class TopicDeletionDisabledError(BrokerError, code=73, name="TOPIC_DELETION_DISABLED"):
    """Topic deletion is switched off on the broker (delete.topic.enable)."""


class FencedLeaderEpochError(InvalidMetadataError, code=74, name="FENCED_LEADER_EPOCH"):
    """The leader epoch in the request is older than the broker's; refreshed metadata has the new one."""


class UnknownLeaderEpochError(BrokerError, code=75, name="UNKNOWN_LEADER_EPOCH", retriable=True):
    """The leader epoch in the request is newer than the broker's, which has yet to catch up."""


class UnsupportedCompressionTypeError(BrokerError, code=76, name="UNSUPPORTED_COMPRESSION_TYPE"):
    """The broker or the version of the request does not support this compression type."""


class StaleBrokerEpochError(BrokerError, code=77, name="STALE_BROKER_EPOCH"):
    """The broker's epoch has changed, as after its restart."""


class OffsetNotAvailableError(BrokerError, code=78, name="OFFSET_NOT_AVAILABLE", retriable=True):
    """The leader does not know the offset yet, as right after its election."""


class MemberIdRequiredError(BrokerError, code=79, name="MEMBER_ID_REQUIRED"):
    """The group needs the member to join with the member id it was just given."""


class PreferredLeaderNotAvailableError(InvalidMetadataError, code=80, name="PREFERRED_LEADER_NOT_AVAILABLE"):
    """The preferred leader is not available; start the broker of the partition's first replica, and wait until it is
    in sync.
    """


class GroupMaxSizeReachedError(BrokerError, code=81, name="GROUP_MAX_SIZE_REACHED"):
    """The group has as many members as group.max.size allows."""


class FencedInstanceIdError(BrokerError, code=82, name="FENCED_INSTANCE_ID", fatal=True):
    """Another member with the same group_instance_id has taken this one's place; give each member a group_instance_id
    of its own, or, if the other one was meant to take over, close this one.
    """


class EligibleLeadersNotAvailableError(InvalidMetadataError, code=83, name="ELIGIBLE_LEADERS_NOT_AVAILABLE"):
    """None of the replicas that may become leader is available; start one of their brokers, or elect an unclean
    leader, which may lose records.
    """


class ElectionNotNeededError(InvalidMetadataError, code=84, name="ELECTION_NOT_NEEDED"):
    """The partition has the leader it should have, so that no election is needed."""


class NoReassignmentInProgressError(BrokerError, code=85, name="NO_REASSIGNMENT_IN_PROGRESS"):
    """No reassignment of the partition is in progress; list_partition_reassignments shows those that are."""


class GroupSubscribedToTopicError(BrokerError, code=86, name="GROUP_SUBSCRIBED_TO_TOPIC"):
    """The group is subscribed to the topic, so that its offsets cannot be deleted; stop the members first."""


class InvalidRecordError(BrokerError, code=87, name="INVALID_RECORD"):
    """The broker refused a record, as one without a key on a compacted topic, or with a bad timestamp or sequence."""


class UnstableOffsetCommitError(BrokerError, code=88, name="UNSTABLE_OFFSET_COMMIT", retriable=True):
    """Offsets were committed in a transaction that is still open; the request must wait for its end."""


class ThrottlingQuotaExceededError(BrokerError, code=89, name="THROTTLING_QUOTA_EXCEEDED", retriable=True):
    """The client has used up its quota; try again later."""


class ProducerFencedError(BrokerError, code=90, name="PRODUCER_FENCED", fatal=True):
    """A newer producer with the same transactional id has started; close this one."""


class ResourceNotFoundError(BrokerError, code=91, name="RESOURCE_NOT_FOUND"):
    """The resource the request refers to does not exist."""


class DuplicateResourceError(BrokerError, code=92, name="DUPLICATE_RESOURCE"):
    """The request names the same resource more than once."""


class UnacceptableCredentialError(BrokerError, code=93, name="UNACCEPTABLE_CREDENTIAL"):
    """The credential does not meet the broker's requirements."""


class InconsistentVoterSetError(BrokerError, code=94, name="INCONSISTENT_VOTER_SET"):
    """The set of voters differs between sender and receiver."""


class InvalidUpdateVersionError(BrokerError, code=95, name="INVALID_UPDATE_VERSION"):
    """The version of the update is not valid; describe_features shows the levels that are supported."""


class FeatureUpdateFailedError(BrokerError, code=96, name="FEATURE_UPDATE_FAILED"):
    """The finalized feature could not be updated; the controller's log says why."""


class PrincipalDeserializationError(BrokerError, code=97, name="PRINCIPAL_DESERIALIZATION_FAILURE"):
    """The broker could not deserialize the principal of a forwarded request."""


class SnapshotNotFoundError(BrokerError, code=98, name="SNAPSHOT_NOT_FOUND"):
    """The snapshot does not exist."""


class PositionOutOfRangeError(BrokerError, code=99, name="POSITION_OUT_OF_RANGE"):
    """The position lies outside the snapshot."""


class UnknownTopicIdError(InvalidMetadataError, code=100, name="UNKNOWN_TOPIC_ID"):
    """The broker does not know this topic id; the topic may have been deleted, or just created."""


class DuplicateBrokerRegistrationError(BrokerError, code=101, name="DUPLICATE_BROKER_REGISTRATION"):
    """A broker with this id is registered already."""


class BrokerIdNotRegisteredError(BrokerError, code=102, name="BROKER_ID_NOT_REGISTERED"):
    """The controller knows no broker with this id; describe_cluster shows those that are registered."""


class InconsistentTopicIdError(InvalidMetadataError, code=103, name="INCONSISTENT_TOPIC_ID"):
    """The topic id in the log differs from the one in the request; the topic was deleted and created again."""


class InconsistentClusterIdError(BrokerError, code=104, name="INCONSISTENT_CLUSTER_ID"):
    """The cluster id in the request is another cluster's; the addresses belong to different clusters."""


class TransactionalIdNotFoundError(BrokerError, code=105, name="TRANSACTIONAL_ID_NOT_FOUND"):
    """The coordinator does not know this transactional id."""


class FetchSessionTopicIdError(BrokerError, code=106, name="FETCH_SESSION_TOPIC_ID_ERROR", retriable=True):
    """The fetch session uses topic names where ids are expected, or the reverse; the next fetch starts a new one."""


class IneligibleReplicaError(BrokerError, code=107, name="INELIGIBLE_REPLICA"):
    """The replica may not join the in-sync replicas."""


class NewLeaderElectedError(BrokerError, code=108, name="NEW_LEADER_ELECTED"):
    """The partition change was made and elected a new leader."""


class OffsetMovedToTieredStorageError(BrokerError, code=109, name="OFFSET_MOVED_TO_TIERED_STORAGE"):
    """The offset has been moved to tiered storage."""


class FencedMemberEpochError(BrokerError, code=110, name="FENCED_MEMBER_EPOCH"):
    """The member's epoch is out of date, so that the coordinator has fenced it; it has to join again."""


class UnreleasedInstanceIdError(BrokerError, code=111, name="UNRELEASED_INSTANCE_ID"):
    """Another member still holds this group_instance_id; it has to leave, or time out, first."""


class UnsupportedAssignorError(BrokerError, code=112, name="UNSUPPORTED_ASSIGNOR"):
    """The coordinator supports none of the assignors that were asked for."""


class StaleMemberEpochError(BrokerError, code=113, name="STALE_MEMBER_EPOCH"):
    """The member's epoch is older than the group's; commit again with the new one."""


class MismatchedEndpointTypeError(BrokerError, code=114, name="MISMATCHED_ENDPOINT_TYPE"):
    """The request went to a listener of the wrong kind: a broker's for a controller, or the reverse."""


class UnsupportedEndpointTypeError(BrokerError, code=115, name="UNSUPPORTED_ENDPOINT_TYPE"):
    """The endpoint type is not supported."""


class UnknownControllerIdError(BrokerError, code=116, name="UNKNOWN_CONTROLLER_ID"):
    """The controller id is not known."""


class UnknownSubscriptionIdError(BrokerError, code=117, name="UNKNOWN_SUBSCRIPTION_ID"):
    """The client telemetry subscription has changed; ask for it again."""


class TelemetryTooLargeError(BrokerError, code=118, name="TELEMETRY_TOO_LARGE"):
    """The telemetry is larger than the broker accepts."""


class InvalidRegistrationError(BrokerError, code=119, name="INVALID_REGISTRATION"):
    """The controller considers the broker's registration invalid."""


class TransactionAbortableError(BrokerError, code=120, name="TRANSACTION_ABORTABLE", abortable=True):
    """The transaction failed and can be aborted; abort it and begin a new one."""


class InvalidRecordStateError(BrokerError, code=121, name="INVALID_RECORD_STATE"):
    """The record is not in a state that allows its acknowledgement, for example because its acquisition lock has
    expired.
    """


class ShareSessionNotFoundError(BrokerError, code=122, name="SHARE_SESSION_NOT_FOUND", retriable=True):
    """The broker has dropped the share session; the next fetch starts a new one."""


class InvalidShareSessionEpochError(BrokerError, code=123, name="INVALID_SHARE_SESSION_EPOCH", retriable=True):
    """The epoch of the share session does not match; the next fetch starts a new one."""


class FencedStateEpochError(BrokerError, code=124, name="FENCED_STATE_EPOCH"):
    """The share coordinator has a newer state epoch of the partition."""


class InvalidVoterKeyError(BrokerError, code=125, name="INVALID_VOTER_KEY"):
    """The voter's key does not match the one in the receiving controller."""


class DuplicateVoterError(BrokerError, code=126, name="DUPLICATE_VOTER"):
    """The voter is in the set already; describe_metadata_quorum shows the voters."""


class VoterNotFoundError(BrokerError, code=127, name="VOTER_NOT_FOUND"):
    """The voter is not in the set; describe_metadata_quorum shows the voters, each with the id of its directory."""


class InvalidRegularExpressionError(BrokerError, code=128, name="INVALID_REGULAR_EXPRESSION"):
    """The regular expression is not valid; the broker expects RE2/J syntax."""


class RebootstrapRequiredError(BrokerError, code=129, name="REBOOTSTRAP_REQUIRED"):
    """The client should discover the cluster again from its bootstrap servers."""


class StreamsInvalidTopologyError(BrokerError, code=130, name="STREAMS_INVALID_TOPOLOGY"):
    """The streams topology is not valid."""


class StreamsInvalidTopologyEpochError(BrokerError, code=131, name="STREAMS_INVALID_TOPOLOGY_EPOCH"):
    """The streams topology's epoch is not valid."""


class StreamsTopologyFencedError(BrokerError, code=132, name="STREAMS_TOPOLOGY_FENCED"):
    """The streams topology's epoch is out of date."""


class ShareSessionLimitReachedError(BrokerError, code=133, name="SHARE_SESSION_LIMIT_REACHED", retriable=True):
    """The broker has no room for another share session at the moment."""
