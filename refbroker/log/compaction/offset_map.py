"""The offset map: the last offset of each key in the dirty part of a log, in bounded memory.

A record of the log stays only if no later one in the map has its key. Keys shorter than 16 bytes are stored unchanged,
longer ones as a hash of 16 bytes (BLAKE2b, for which nobody can create collisions). Kafka stores 16 bytes of MD5 and an
offset of 8 bytes in one flat table. Here an entry is a slot of a dict, a bytes object and an int, which take up to
`BYTES_PER_ENTRY` together, including the copy of the table while it grows. So the same `log.cleaner.dedupe.buffer.size`
is enough for an eighth of the keys, and a log with more keys takes more passes. Unlike Kafka's table, the map takes no
memory before it has keys.
"""

from __future__ import annotations

from hashlib import blake2b

BYTES_PER_ENTRY = 192
_HASH_SIZE = 16


def map_key(key: bytes) -> bytes:
    """Return the key of the map for a record's key."""
    # Shorter than any hash, so that no key can be mistaken for the hash of another.
    return key if len(key) < _HASH_SIZE else blake2b(key, digest_size=_HASH_SIZE).digest()


class OffsetMap:
    """The latest offset of each key.

    Parameters:
        memory: the maximum bytes.
        load_factor: the fraction of them that may be used, from 0 to 1.

    Attributes:
        offsets: the latest offset by `map_key` of the key, for callers with many lookups.
        capacity: the maximum number of keys, at least one.
        latest_offset: everything from the first dirty offset to here is in the map; -1 before there is anything.
    """

    def __init__(self, memory: int, load_factor: float = 0.9) -> None:
        self.slots = memory // BYTES_PER_ENTRY
        self.capacity = max(int(self.slots * load_factor), 1)
        self.offsets: dict[bytes, int] = {}
        self.latest_offset = -1

    def __len__(self) -> int:
        return len(self.offsets)

    def put(self, key: bytes, offset: int) -> bool:
        """Record the latest offset of a key; return False, without effect, if the map is full."""
        entry = map_key(key)
        if len(self.offsets) >= self.capacity and entry not in self.offsets:
            return False
        self.offsets[entry] = offset
        return True

    def get(self, key: bytes) -> int:
        """Return the latest offset of a key, -1 if the key is not in the map."""
        return self.offsets.get(map_key(key), -1)

    @property
    def utilization(self) -> float:
        """The fraction of the memory that is in use, from 0 to 1."""
        return len(self.offsets) / max(self.slots, self.capacity)
