"""Wording that several parts of the library share. Elsewhere: the texts of errors."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from uuid import UUID


def address(host: str, port: int) -> str:
    """Return host and port as they stand in `bootstrap_servers`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def partition_count(count: int) -> str:
    """Return how many partitions a topic has, for a caller who asked for another one."""
    return f"the topic has {count} partition{'' if count == 1 else 's'}, numbered from 0"


def id_text(value: UUID) -> str:
    """Return the id of a topic or a directory as Kafka's tools and logs write it: 22 characters of base64."""
    return urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def id_from_text(text: str) -> UUID:
    """Return an id that Kafka's tools have written.

    Raises:
        ValueError: the text is not an id.
    """
    try:
        found = UUID(bytes=urlsafe_b64decode(f"{text}=="))
    except ValueError:
        found = None
    # Python's decoder skips characters that are not base64.
    if found is None or id_text(found) != text:
        raise ValueError(f"{text!r} is not an id of 22 characters, such as kKqfBAbTQfKvCVZ6MwW4Fg")
    return found
