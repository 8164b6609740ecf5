"""The inputs of planned metadata changes: the state of the cluster, the settings of the node, and new ids.

Elsewhere: the plans (`topics` and `configs` return the records of a change), and their application (`active`).
"""

from __future__ import annotations

import random
import uuid

from refbroker.config import BrokerConfig
from refbroker.controller.cluster import Cluster, EffectiveTopicRules
from refbroker.controller.partition_index import PartitionIndex
from refbroker.log import Files
from refbroker.log.checkpoints import random_uuid
from refbroker.metadata.image import ClusterImage
from refbroker.runtime.file_limit import file_limit, file_reserve, open_files


class Controller:
    """The part of a controller that plans read.

    Parameters:
        image: the state of the cluster.
        config: the node's settings.
        files: the node's disk, which limits the number of open files and therefore of partitions.
        rng: for ids, and for the placement of partitions.

    Attributes:
        cluster: what plans of partitions and brokers read.
    """

    def __init__(self, image: ClusterImage, config: BrokerConfig, files: Files, rng: random.Random) -> None:
        self.image = image
        self.config = config
        self.files = files
        self.rng = rng
        self.cluster = Cluster(image, PartitionIndex(image), EffectiveTopicRules(image, config))

    @property
    def node_id(self) -> int:
        """The node's id."""
        return self.config.node_id

    def new_uuid(self) -> uuid.UUID:
        """Return a random id for a topic."""
        return random_uuid(self.rng)

    def room_for_files(self) -> int:
        """Return how many more files may stay open, if files that need not be open are closed.

        This takes about a millisecond for a thousand open files, so call it once per request.
        """
        return file_limit() - file_reserve() - open_files() + len(self.files.spare_files)
