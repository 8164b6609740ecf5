"""Kafka's compression types and their levels: one table for options, codecs and the broker's settings."""

from __future__ import annotations

from typing import NamedTuple

NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
"""Compression types by Kafka's id, as in the low three bits of a batch's attributes."""


class Levels(NamedTuple):
    """The levels of a compression type: from `least` to `greatest`, and the default, which may be outside of these."""

    least: int
    greatest: int
    default: int

    def allow(self, level: int) -> bool:
        """Return whether a level is one of these."""
        return level == self.default or self.least <= level <= self.greatest

    @property
    def special(self) -> int | None:
        """The default if it is outside of the range, None otherwise."""
        return None if self.least <= self.default <= self.greatest else self.default


LEVELS = {"gzip": Levels(1, 9, -1), "lz4": Levels(1, 17, 9), "zstd": Levels(-131072, 22, 3)}
"""The compression levels of Kafka 4.3; none and snappy know no levels."""
