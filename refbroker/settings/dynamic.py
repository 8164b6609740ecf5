"""The broker settings that can be changed while the broker runs, and their scope: one broker, all brokers, one
listener.

The flag `D` of the table marks them; this module has the scopes. A running broker also accepts quotas, which a
configuration file cannot contain, and unknown names, which it keeps for plugins. Source: KIP-226.
"""

from __future__ import annotations

import re
from functools import cache

from refbroker.settings.definitions import Setting, broker_settings, read_table
from refbroker.settings.values import Type

SECURITY_STORES = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""Keys and certificates, which can be changed only for one listener."""

_ONE_BROKER_ONLY = frozenset(
    {"cordoned.log.dirs", "listeners", "listener.security.protocol.map", "principal.builder.class"}
)
_LIMITS_OF_CONNECTIONS = frozenset({"max.connections", "max.connection.creation.rate", "num.network.threads"})

QUOTA_TABLE = """
follower.replication.throttled.rate long 9223372036854775807 0.. D
leader.replication.throttled.rate long 9223372036854775807 0.. D
replica.alter.log.dirs.io.max.bytes.per.second long 9223372036854775807 0.. AD
"""

_FOR_A_LISTENER = re.compile(r"listener\.name\.[^.]*\.(.*)")


@cache
def quota_settings() -> dict[str, Setting]:
    """Return the broker settings that can be set only while the broker runs, by name."""
    return read_table(QUOTA_TABLE)


def base_name(name: str) -> str:
    """Return the name of the setting without the prefix `listener.name.LISTENER.` of a listener."""
    found = _FOR_A_LISTENER.fullmatch(name)
    return found[1] if found else name


def broker_setting(name: str) -> Setting:
    """Return a broker setting by name: a plain one, a quota, one of a listener, or an unknown one."""
    known = broker_settings().get(name) or quota_settings().get(name)
    if known is not None:
        return known
    base = broker_settings().get(base_name(name))
    if base is not None:
        return base._replace(name=name, default=None, dynamic=False)
    return Setting(name, Type.UNKNOWN, None, "*", acted_on=False, dynamic=False)


def is_for_one_broker(name: str) -> bool:
    """Return whether a setting can be changed only on one broker, not on all of them."""
    base = base_name(name)
    if base != name:
        return base not in _LIMITS_OF_CONNECTIONS
    return base in _ONE_BROKER_ONLY or base.startswith(("ssl.", "sasl."))
