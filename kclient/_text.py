"""Wording that several parts of the library share. Elsewhere: the texts of errors."""

from __future__ import annotations


def address(host: str, port: int) -> str:
    """Return host and port as they stand in `bootstrap_servers`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def partition_count(count: int) -> str:
    """Return how many partitions a topic has, for a caller who asked for another one."""
    return f"the topic has {count} partition{'' if count == 1 else 's'}, numbered from 0"
