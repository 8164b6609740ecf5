"""Admin clients for readers and writers, made from the options of their consumers and producers."""

from __future__ import annotations

from collections.abc import Mapping

from kclient import Admin
from kclient.config import AdminConfig, dotted_name

_BLOCK = "max.block.ms"
_TIMEOUT = "default.api.timeout.ms"

_KNOWN = frozenset(dotted_name(AdminConfig, name) for name in AdminConfig.__struct_fields__)


def open_admin(client: Mapping[str, str]) -> Admin:
    """Return an admin client that the caller closes, with the timeouts of the consumer or producer.

    Parameters:
        client: options of a consumer or a producer, by Kafka's dotted names; those that an admin client lacks are
            ignored.
    """
    options = {name: value for name, value in client.items() if name in _KNOWN}
    if _BLOCK in client:
        options[_TIMEOUT] = client[_BLOCK]
    return Admin.from_properties(options)
