"""`refbroker dump-log`: shows what is in a broker's files, in the shape of Kafka's DumpLogSegments, or as JSON.

Segments, snapshots of the metadata log, indexes, producer snapshots, checkpoints and properties, told apart by
their names, whether this broker wrote them or Apache Kafka. Nothing is written or repaired; of a file that is
damaged what can be read is shown.

Not implemented: decoder classes, share group state and tiered storage.
"""

from __future__ import annotations

from refbroker.dump.command import dump_files
from refbroker.dump.entries import DumpOptions

__all__ = ["DumpOptions", "dump_files"]
