"""What several parts of the library put into words the same way; leaves out errors, which word themselves."""

from __future__ import annotations


def address(host: str, port: int) -> str:
    """Host and port as they stand in `bootstrap_servers`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def partition_count(count: int) -> str:
    """How many partitions a topic has, for who asked for another one."""
    return f"the topic has {count} partition{'' if count == 1 else 's'}, numbered from 0"
