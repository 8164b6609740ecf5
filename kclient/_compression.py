"""Kafka's compression types and their levels: one table for options and codecs."""

from __future__ import annotations

NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
"""Compression types by Kafka's id, as in the low three bits of a batch's attributes."""

LEVELS = {"gzip": (-1, 9), "lz4": (1, 17), "zstd": (-131072, 22)}
"""The compression levels of Kafka 4.3: least and greatest. gzip knows no 0; none and snappy know no levels."""

DEFAULT_LEVELS = {"gzip": -1, "lz4": 9, "zstd": 3}
