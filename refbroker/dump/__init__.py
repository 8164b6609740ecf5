"""`refbroker dump-log`: shows what is in a broker's files, in the shape of Kafka's DumpLogSegments, or as JSON.

Segments (of `__cluster_metadata` with their records decoded), offset and time indexes, producer
snapshots, checkpoints and properties, told apart by their names. Nothing is written or repaired.
"""

from __future__ import annotations

from refbroker.dump.command import dump_files

__all__ = ["dump_files"]
