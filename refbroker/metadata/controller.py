"""What plans of metadata changes are made from: the cluster's state, the node's settings, and new ids.

Every node is its own controller.

Elsewhere: the plans (`topics` and `configs` return the records of a change), and applying them (`MetadataLog.append`).
"""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass

from refbroker.config import BrokerConfig
from refbroker.log import Files
from refbroker.log.checkpoints import random_uuid
from refbroker.metadata.image import ClusterImage
from refbroker.runtime.file_limit import file_limit, file_reserve, open_files


@dataclass(frozen=True, slots=True)
class Controller:
    """The controller of a node.

    Attributes:
        image: the state of the cluster.
        config: the node's settings.
        files: the node's disk, whose open files leave room for more partitions or do not.
        rng: for ids.
    """

    image: ClusterImage
    config: BrokerConfig
    files: Files
    rng: random.Random

    @property
    def node_id(self) -> int:
        """The node's id."""
        return self.config.node_id

    def new_uuid(self) -> uuid.UUID:
        """Return a random id for a topic."""
        return random_uuid(self.rng)

    def room_for_files(self) -> int:
        """Return how many more files may be open for good, if those that need not be are closed.

        It takes about a millisecond for a thousand that are open, so it is asked once per request.
        """
        return file_limit() - file_reserve() - open_files() + len(self.files.spare_files)
