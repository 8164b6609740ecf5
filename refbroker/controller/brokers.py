"""What the controller does with brokers: registers, fences, unfences and unregisters them.

Each function returns the records of a change, in the order in which Kafka's controller writes them: a broker that
leaves first loses its leaderships and places in in-sync sets; one that comes back is first unfenced. So no replayed
prefix of the log has a leader on a fenced broker.

A broker registers with each start (BrokerRegistration, KIP-631), under a new incarnation id, and gets an epoch, the
offset of its registration. If it did not stop cleanly, it may have lost records: with eligible leader replicas
(KIP-966), it leaves in-sync sets and eligible leaders before the registration. Whether it stopped cleanly follows from
the epoch that it remembers: only a clean stop writes it down.

Source: Kafka's `ClusterControlManager` and `ReplicationControlManager`. Elsewhere: heartbeats and sessions
(`heartbeats`, `liveness`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from kclient.errors import (
    BrokerIdNotRegisteredError,
    DuplicateBrokerRegistrationError,
    InconsistentClusterIdError,
    InvalidRegistrationError,
    UnsupportedVersionError,
)
from kclient.protocol import Message
from kclient.protocol.messages.broker_registration import BrokerRegistrationRequest
from kclient.protocol.messages.records.metadata_log import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from refbroker.controller.cluster import Cluster
from refbroker.controller.elections import plan_updates
from refbroker.controller.liveness import Liveness
from refbroker.metadata.directories import LAST_RESERVED
from refbroker.metadata.image import KRAFT_VERSION, BrokerRegistration
from refbroker.metadata.versions import DIRECTORIES, METADATA_VERSION

YES, NO = 1, -1
"""The values of the fields of BrokerRegistrationChangeRecord; 0 leaves the state as it is."""
FIRST_WITH_PREVIOUS_EPOCH = 3


def plan_registration(
    cluster: Cluster,
    liveness: Liveness,
    request: BrokerRegistrationRequest,
    *,
    version: int,
    cluster_id: str,
    kraft_version: int,
    broker_epoch: int,
    now_ms: int,
    is_local: bool = False,
) -> tuple[list[Message], int]:
    """Return the records that register a broker, and its epoch; the registration is the last record.

    Parameters:
        version: of the request.
        cluster_id: the id of this cluster.
        kraft_version: the level of that feature, which is not in the image.
        broker_epoch: for a new incarnation: the offset of the next record.
        is_local: whether it is the broker of this node. It need not support all features, because its data may come
            from Kafka, and its directories were checked when they were opened.

    Raises:
        InconsistentClusterIdError: the broker belongs to another cluster.
        DuplicateBrokerRegistrationError: another broker with this id is alive.
        BrokerIdNotRegisteredError: the broker is being migrated from ZooKeeper.
        InvalidRegistrationError: its data directories are missing, reserved, or those of another broker, or it does not
            name the feature `metadata.version`.
        UnsupportedVersionError: it does not support the level of a feature.
    """
    if request.cluster_id != cluster_id:
        raise InconsistentClusterIdError(f"Expected cluster ID {cluster_id}, but got cluster ID {request.cluster_id}")
    node = request.broker_id
    existing = cluster.image.brokers.get(node)
    is_new = existing is None or existing.incarnation_id != request.incarnation_id
    is_alive = existing is not None and not is_local and liveness.has_session(node, existing.broker_epoch, now_ms)
    if is_new and is_alive:
        raise DuplicateBrokerRegistrationError(
            "Another broker is registered with that broker id. If the broker was recently restarted this should "
            "self-resolve once the heartbeat manager expires the broker's session."
        )
    if request.is_migrating_zk_broker:
        raise BrokerIdNotRegisteredError("Controller does not support registering ZK brokers.")
    has_directories = cluster.image.metadata_version >= DIRECTORIES
    if has_directories and not is_local:
        _check_directories(cluster, request)
    if not is_local:
        _check_features(cluster, request, kraft_version)
    record = _registration(request, broker_epoch)
    if has_directories:
        record.log_dirs = request.log_dirs
    records: list[Message] = []
    if is_new:
        previous = -2 if existing is None else existing.broker_epoch
        is_clean = version >= FIRST_WITH_PREVIOUS_EPOCH and request.previous_broker_epoch == previous
        records += clean_up(cluster, node, is_clean=is_clean)
    else:
        assert existing is not None
        record.broker_epoch = existing.broker_epoch
        record.fenced, record.in_controlled_shutdown = existing.fenced, existing.in_controlled_shutdown
    return [*records, record], record.broker_epoch


def _registration(request: BrokerRegistrationRequest, broker_epoch: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=broker_epoch,
        end_points=[
            RegisterBrokerRecord.BrokerEndpoint(
                name=one.name, host=one.host, port=one.port, security_protocol=one.security_protocol
            )
            for one in request.listeners
        ],
        features=[
            RegisterBrokerRecord.BrokerFeature(
                name=one.name,
                min_supported_version=one.min_supported_version,
                max_supported_version=one.max_supported_version,
            )
            for one in request.features
        ],
        rack=request.rack,
        fenced=True,
    )


def _check_directories(cluster: Cluster, request: BrokerRegistrationRequest) -> None:
    directories = request.log_dirs
    if not directories:
        raise InvalidRegistrationError("No directories specified in request")
    if any(directory <= LAST_RESERVED for directory in directories):
        raise InvalidRegistrationError("Reserved directory ID in request")
    if len(set(directories)) != len(directories):
        raise InvalidRegistrationError("Duplicate directory ID in request")
    for broker in cluster.image.brokers.values():
        if broker.broker_id == request.broker_id:
            continue
        taken = next((directory for directory in directories if directory in broker.record.log_dirs), None)
        if taken is not None:
            raise InvalidRegistrationError(f"Broker {broker.broker_id} is already registered with directory {taken}")


def _check_features(cluster: Cluster, request: BrokerRegistrationRequest, kraft_version: int) -> None:
    """Check that a broker supports the level of each finalized feature."""
    image = cluster.image
    finalized: Mapping[str, int] = {
        **image.features,
        METADATA_VERSION: image.metadata_version,
        KRAFT_VERSION: kraft_version,
    }
    ranges = {one.name: (one.min_supported_version, one.max_supported_version) for one in request.features}
    for name, (low, high) in ranges.items():
        _check_level(name, finalized.get(name, 0), low, high)
    if METADATA_VERSION not in ranges:
        raise InvalidRegistrationError(f"Request features do not contain '{METADATA_VERSION}'")
    for name, level in finalized.items():
        if level and name not in ranges:
            _check_level(name, level, 0, 0)


def _check_level(name: str, level: int, low: int, high: int) -> None:
    if not low <= level <= high:
        raise UnsupportedVersionError(
            f"Unable to register because the broker does not support finalized version {level} of {name}. The broker "
            f"wants a version between {low} and {high}, inclusive."
        )


def clean_up(cluster: Cluster, broker: int, *, is_clean: bool) -> list[Message]:
    """Return the records that end the previous incarnation of a broker.

    Parameters:
        is_clean: whether it has everything that it ever acknowledged.
    """
    index = cluster.index
    if not cluster.has_eligible_leaders or is_clean:
        return [*plan_updates(cluster, index.in_sync(broker), removed=broker)]
    return [*plan_updates(cluster, [*index.in_sync(broker), *index.eligible(broker)], crashed=broker)]


def fence(cluster: Cluster, broker: int) -> list[Message]:
    """Return the records that fence a registered broker."""
    epoch = cluster.image.brokers[broker].broker_epoch
    return [
        *plan_updates(cluster, cluster.index.in_sync(broker), removed=broker),
        BrokerRegistrationChangeRecord(broker_id=broker, broker_epoch=epoch, fenced=YES),
    ]


def unfence(cluster: Cluster, broker: int) -> list[Message]:
    """Return the records that unfence a registered broker, which may lead partitions that have no leader."""
    epoch = cluster.image.brokers[broker].broker_epoch
    return [
        BrokerRegistrationChangeRecord(broker_id=broker, broker_epoch=epoch, fenced=NO),
        *plan_updates(cluster, cluster.index.leaderless(), added=broker),
    ]


def begin_shutdown(cluster: Cluster, broker: int) -> list[Message]:
    """Return the records that move the leaderships of a broker that wants to shut down."""
    registered = cluster.image.brokers[broker]
    records: list[Message] = []
    if not registered.in_controlled_shutdown:
        epoch = registered.broker_epoch
        records.append(BrokerRegistrationChangeRecord(broker_id=broker, broker_epoch=epoch, in_controlled_shutdown=YES))
    return [*records, *plan_updates(cluster, cluster.index.in_sync(broker), removed=broker)]


def unregister(cluster: Cluster, broker: int) -> list[Message]:
    """Return the records that remove a broker from the cluster; replicas on it stay assigned to it.

    Raises:
        BrokerIdNotRegisteredError: there is no such broker.
    """
    registered = cluster.image.brokers.get(broker)
    if registered is None:
        raise BrokerIdNotRegisteredError(f"Broker ID {broker} is not currently registered")
    partitions = [*cluster.index.in_sync(broker), *cluster.index.eligible(broker)]
    return [
        *plan_updates(cluster, partitions, removed=broker),
        UnregisterBrokerRecord(broker_id=broker, broker_epoch=registered.broker_epoch),
    ]


def take_offline(cluster: Cluster, registered: BrokerRegistration, offline: Sequence[UUID]) -> list[Message]:
    """Return the records that remove failed directories from a broker; none for those that are known.

    Parameters:
        offline: the directories that the broker reports.
    """
    failed = [directory for directory in sorted(registered.record.log_dirs) if directory in offline]
    if not failed:
        return []
    node = registered.broker_id
    return [
        *(
            change
            for directory in failed
            for change in plan_updates(cluster, cluster.index.in_directory(directory), removed=node)
        ),
        BrokerRegistrationChangeRecord(
            broker_id=node,
            broker_epoch=registered.broker_epoch,
            log_dirs=[directory for directory in sorted(registered.record.log_dirs) if directory not in offline],
        ),
    ]


def cordon(registered: BrokerRegistration, cordoned: Sequence[UUID] | None) -> list[Message]:
    """Return the record of the directories that take no new partitions, none if they are the same.

    Parameters:
        cordoned: the directories that the broker reports; None before it has caught up.
    """
    present = registered.record.cordoned_log_dirs
    if cordoned is None or (present is not None and set(present) == set(cordoned)):
        return []
    return [
        BrokerRegistrationChangeRecord(
            broker_id=registered.broker_id,
            broker_epoch=registered.broker_epoch,
            cordoned_log_dirs=list(cordoned),
        )
    ]
