"""`refbroker dump-log`: print the contents of a broker's files in the format of Kafka's DumpLogSegments, or as JSON.

Reads segments, snapshots of the metadata log, indexes, producer snapshots, checkpoints and properties files, written
by this broker or by Apache Kafka. The name of a file decides how it is read. Files are never written or repaired; of
a damaged file, the readable part is printed.

Not implemented: decoder classes, share group state and tiered storage.
"""

from __future__ import annotations

from refbroker.dump.command import dump_files
from refbroker.dump.entries import DumpOptions

__all__ = ["DumpOptions", "dump_files"]
