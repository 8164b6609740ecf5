"""The scope of dynamic broker settings: whether they can be changed for one broker, all brokers or one listener.

The flag `D` of the broker table marks the dynamic settings. A running broker also accepts quotas, which a configuration
file cannot contain, and unknown names, which may be settings of a plugin. Sources: KIP-226, DynamicBrokerConfig.
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

_PER_BROKER_CONFIGS = frozenset(
    {"cordoned.log.dirs", "listeners", "listener.security.protocol.map", "principal.builder.class"}
)
_CLUSTER_LEVEL_LISTENER_CONFIGS = frozenset({"max.connections", "max.connection.creation.rate", "num.network.threads"})
"""The settings of a listener that can be changed for all brokers at once."""

QUOTA_TABLE = """
follower.replication.throttled.rate long 9223372036854775807 0.. D
leader.replication.throttled.rate long 9223372036854775807 0.. D
replica.alter.log.dirs.io.max.bytes.per.second long 9223372036854775807 0.. AD
"""

_LISTENER_PREFIX = re.compile(r"listener\.name\.[^.]*\.(.*)")
_MECHANISM_PREFIX = re.compile(r"(?:plain|scram-sha-256|scram-sha-512|oauthbearer|gssapi)\.(.*)")


@cache
def quota_settings() -> dict[str, Setting]:
    """Return by name the broker settings that can only be set while the broker runs."""
    return read_table(QUOTA_TABLE)


def base_name(name: str) -> str:
    """Return a name without the prefix of a listener, `listener.name.LISTENER.`, if it has one."""
    found = _LISTENER_PREFIX.fullmatch(name)
    return found[1] if found else name


def static_setting(name: str) -> Setting | None:
    """Return the definition of a setting in a configuration file: a plain one, one of a listener, or one of a mechanism
    of a listener; None for any other name.
    """
    base = base_name(name)
    found = broker_settings().get(base)
    mechanism = None if base == name else _MECHANISM_PREFIX.fullmatch(base)
    if mechanism is not None:
        found = broker_settings().get(mechanism[1])
    return None if found is None else found._replace(name=name)


def broker_setting(name: str) -> Setting:
    """Return a broker setting by name: a plain one, a quota, one of a listener, or an unknown one."""
    known = broker_settings().get(name) or quota_settings().get(name)
    if known is not None:
        return known
    base = broker_settings().get(base_name(name))
    if base is not None:
        return base._replace(name=name, default=None, dynamic=False)
    return Setting(name, Type.UNKNOWN, None, "*", acted_on=False, dynamic=False)


def is_per_broker(name: str) -> bool:
    """Return whether a setting can only be changed for one broker, not for all brokers at once."""
    base = base_name(name)
    if base != name:
        return base not in _CLUSTER_LEVEL_LISTENER_CONFIGS
    return base in _PER_BROKER_CONFIGS or base.startswith(("ssl.", "sasl."))
