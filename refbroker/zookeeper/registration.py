"""What the registry writes: the node of the broker, the claim of the controller, and the state of topics.

Every write of a controller checks `/controller_epoch` in the same `multi`, so a controller that another one has
replaced can change nothing. Source: KafkaZkClient and `CheckedEphemeral` of Kafka 2.8.

Blocking; nothing here knows when to write (`registry`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from itertools import islice

from kclient.errors import DuplicateBrokerRegistrationError, InconsistentClusterIdError, NotControllerError
from refbroker.zookeeper import nodes
from refbroker.zookeeper.tree import Change, Check, ConflictError, Create, Delete, Operation, Tree

logger = logging.getLogger(__name__)

OPERATIONS_AT_ONCE = 500
"""The most operations of one `multi`, which ZooKeeper limits to 1 MB."""

Values = Mapping[str, bytes]


class Registration:
    """The nodes of one broker, which is also the controller.

    Parameters:
        tree: the nodes.
        node_id: the broker's id.
        cluster_id: the cluster that the registry must belong to.
    """

    def __init__(self, tree: Tree, node_id: int, cluster_id: str) -> None:
        self._tree = tree
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._written: dict[str, bytes] = {}
        self._epoch_version = 0
        self.controller_epoch = 0

    def join(self, broker: bytes, timestamp_ms: int) -> None:
        """Register the broker, become the controller in a new epoch, and read what the registry has.

        Parameters:
            broker: the value of the broker's node.
            timestamp_ms: the time, for the controller's node.

        Raises:
            InconsistentClusterIdError: the registry belongs to another cluster.
            DuplicateBrokerRegistrationError: another broker with the same id is registered.
            NotControllerError: another broker is the controller.
            UnreachableError: ZooKeeper does not answer.
        """
        self._make_folders()
        self._check_cluster()
        self._register(broker)
        self._take_control(timestamp_ms)
        self._written = dict(self._read_topics())

    def _make_folders(self) -> None:
        for path in nodes.PERSISTENT:
            parts = path.split("/")
            for length in range(2, len(parts) + 1):
                self._make_unless_there("/".join(parts[:length]), b"")

    def _make_unless_there(self, path: str, value: bytes) -> None:
        if self._tree.read(path) is None:
            try:
                self._tree.apply([Create(path, value)])
            except ConflictError:
                logger.debug("another broker has made %s", path)

    def _check_cluster(self) -> None:
        self._make_unless_there(nodes.CLUSTER_ID, nodes.cluster_value(self._cluster_id))
        node = self._tree.read(nodes.CLUSTER_ID)
        found = None if node is None else nodes.cluster_in(node.value)
        if found != self._cluster_id:
            raise InconsistentClusterIdError(
                f"ZooKeeper has the cluster {found} in {nodes.CLUSTER_ID}, and this broker belongs to "
                f"{self._cluster_id}; give each cluster a folder of its own, as zookeeper.connect=HOST:2181/FOLDER does"
            )

    def _register(self, broker: bytes) -> None:
        path = nodes.broker_path(self._node_id)
        while not self._claim(path, broker):
            found = self._tree.read(path)
            if found is None:
                continue
            # What a killed broker leaves stays until its session is over. Only one broker can listen at an address.
            if nodes.endpoints_in(found.value) == nodes.endpoints_in(broker) and self._tree.wait_until_gone(path):
                continue
            raise DuplicateBrokerRegistrationError(
                f"a broker with the id {self._node_id} is registered in ZooKeeper at "
                f"{', '.join(nodes.endpoints_in(found.value)) or path}; give this one another node.id, or stop that one"
            )

    def _take_control(self, timestamp_ms: int) -> None:
        """Write `/controller`, and the next epoch, in one step."""
        self._make_unless_there(nodes.CONTROLLER_EPOCH, b"0")
        while True:
            held = self._tree.read(nodes.CONTROLLER)
            if held is not None and held.owner != self._tree.session_id:
                holder = nodes.controller_in(held.value)
                if holder == self._node_id and self._tree.wait_until_gone(nodes.CONTROLLER):
                    continue
                raise NotControllerError(
                    f"broker {holder} is the controller in ZooKeeper ({nodes.CONTROLLER}); this broker is its own "
                    f"controller, so give it a folder of its own in zookeeper.connect, or stop the other one"
                )
            epoch = self._tree.read(nodes.CONTROLLER_EPOCH)
            if epoch is None:
                self._make_unless_there(nodes.CONTROLLER_EPOCH, b"0")
                continue
            following = int(epoch.value or b"0") + 1
            claim: list[Operation] = [Change(nodes.CONTROLLER_EPOCH, b"%d" % following, epoch.version)]
            if held is None:
                value = nodes.controller_value(self._node_id, timestamp_ms)
                claim.insert(0, Create(nodes.CONTROLLER, value, ephemeral=True))
            try:
                self._tree.apply(claim)
            except ConflictError as conflict:
                logger.debug("%s changed in the meantime", conflict.path)
                continue
            self.controller_epoch, self._epoch_version = following, epoch.version + 1
            return

    def _claim(self, path: str, value: bytes) -> bool:
        """Make an ephemeral node; return whether it belongs to this session."""
        try:
            self._tree.apply([Create(path, value, ephemeral=True)])
        except ConflictError:
            node = self._tree.read(path)
            if node is None or node.owner != self._tree.session_id:
                return False
            self._tree.apply([Change(path, value)])
        return True

    def _read_topics(self) -> Iterator[tuple[str, bytes]]:
        """Yield the nodes of topics that the registry has, with their values."""
        for folder in (nodes.TOPICS, nodes.TOPIC_CONFIGS):
            for name in self._tree.children(folder):
                yield from self._read(f"{folder}/{name}")
        for topic in self._tree.children(nodes.TOPICS):
            partitions = nodes.partitions_path(topic)
            yield from self._read(partitions)
            for number in self._tree.children(partitions):
                yield from self._read(f"{partitions}/{number}")
                yield from self._read(f"{partitions}/{number}/state")

    def _read(self, path: str) -> Iterator[tuple[str, bytes]]:
        node = self._tree.read(path)
        if node is not None:
            yield path, node.value

    def topics(self) -> set[str]:
        """Return the topics that the registry has anything of."""
        return {path.split("/")[3] for path in self._written}

    def write(self, topic: str, wanted: Values) -> None:
        """Make the nodes of a topic equal to some values, folders first; nodes without a value are deleted.

        Raises:
            NotControllerError: another broker has become the controller.
            UnreachableError: ZooKeeper does not answer; what was written is unknown until `join`.
        """
        own = (nodes.topic_path(topic), nodes.config_path(topic))
        present = [path for path in self._written if any(path == one or path.startswith(f"{one}/") for one in own)]
        changes: list[Operation] = [Delete(path) for path in sorted(present, reverse=True) if path not in wanted]
        for path, value in wanted.items():
            if path not in self._written:
                changes.append(Create(path, value))
            elif not nodes.is_same(self._written[path], value):
                changes.append(Change(path, value))
        rest = iter(changes)
        while part := list(islice(rest, OPERATIONS_AT_ONCE)):
            try:
                self._tree.apply([Check(nodes.CONTROLLER_EPOCH, self._epoch_version), *part])
            except ConflictError as conflict:
                raise NotControllerError(
                    f"another controller has changed {conflict.path} in ZooKeeper: this broker no longer writes there"
                ) from conflict
            self._note(part)

    def _note(self, done: list[Operation]) -> None:
        for operation in done:
            if isinstance(operation, Delete):
                del self._written[operation.path]
            elif isinstance(operation, Create | Change):
                self._written[operation.path] = operation.value
