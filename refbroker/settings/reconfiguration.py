"""Checks of changes to the settings of a running broker: which settings, in which scope, and by how much.

The checks and error texts are those of Kafka's DynamicBrokerConfig. They cover threads that this broker does not have,
too, so that it accepts only what Kafka accepts. Limitations: listeners cannot be changed, and Java classes cannot be
loaded.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kclient.errors import InvalidConfigurationError, InvalidRequestError
from refbroker.settings.cross_checks import check_broker, check_local_retention, retention_ms
from refbroker.settings.definitions import broker_settings
from refbroker.settings.dynamic import SECURITY_STORES, base_name, broker_setting, is_per_broker
from refbroker.settings.effective import BrokerLayers
from refbroker.settings.listeners import Listeners, check_mechanisms
from refbroker.settings.values import Type, parse_list

_THREADS = (
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
)
_LISTENERS = ("listeners", "listener.security.protocol.map")
_LISTENER_LIMITS = ("max.connections", "max.connection.creation.rate")
_REPORTER = "org.apache.kafka.common.metrics.JmxReporter"


def check_change(
    props: Mapping[str, str], changed: Collection[str], *, every_broker: bool, layers: BrokerLayers
) -> None:
    """Check a change of broker settings.

    Parameters:
        props: all settings after the change, of the broker or of all brokers.
        changed: the names that change. Single values are checked for these only, so that a value which another broker
            accepted earlier does not prevent the change.
        every_broker: whether the change is for all brokers.
        layers: the current settings.

    Raises:
        InvalidRequestError: the change is not allowed.
    """
    try:
        named = {name: value for name, value in props.items() if name in changed}
        _check_names(named)
        for name, value in named.items():
            _check_value(name, value)
        if every_broker:
            _refuse(
                [name for name in named if is_per_broker(name)],
                "Cannot update these configs at default cluster level, broker id must be specified",
            )
        new = BrokerLayers(
            layers.dynamic if every_broker else props, props if every_broker else layers.dynamic_default, layers.static
        )
        check_broker(new)
        check_mechanisms(new, Listeners(new.static))
        _check_step(layers, new)
    except InvalidConfigurationError as error:
        raise InvalidRequestError(error.message) from error


def _check_names(props: Mapping[str, str]) -> None:
    known = broker_settings()
    _refuse(
        [name for name in props if name in known and not known[name].dynamic], "Cannot update these configs dynamically"
    )
    _refuse(
        [name for name in props if name in SECURITY_STORES],
        "These security configs can be dynamically updated only per-listener using the listener prefix",
    )


def _refuse(names: list[str], text: str) -> None:
    if names:
        raise InvalidConfigurationError(f"{text}: [{', '.join(sorted(names))}]")


def _check_value(name: str, value: str) -> None:
    setting = broker_setting(base_name(name))
    if name != base_name(name) and not setting.dynamic:
        # Kafka does not check the value for a listener if the setting cannot be changed for all listeners.
        return
    setting.check(value)
    if setting.type is Type.CLASS and value.strip() != setting.default:
        raise InvalidConfigurationError(
            f"Invalid value {value} for configuration {setting.name}: Class {value} could not be found."
        )


def _check_step(old: BrokerLayers, new: BrokerLayers) -> None:
    """Check a change against the current settings."""

    def changed(name: str) -> bool:
        return old.value(name) != new.value(name)

    def numbers(name: str) -> tuple[int, int]:
        return int(old.value(name) or 0), int(new.value(name) or 0)

    try:
        for name in filter(changed, _THREADS):
            _check_threads(name, *numbers(name))
        _check_cleaner_threads(*numbers("log.cleaner.threads"))
        _check_retention(new)
        _check_limits(old, new)
        if changed("metric.reporters"):
            _check_reporters(new)
    except InvalidConfigurationError as error:
        raise InvalidConfigurationError(
            f"Invalid value org.apache.kafka.common.config.ConfigException: {error.message} for configuration "
            "Invalid dynamic configuration"
        ) from error
    for name in filter(changed, _LISTENERS):
        raise InvalidConfigurationError(
            f"{name} cannot be changed while this broker runs; restart it with the new value."
        )


def _check_threads(name: str, present: int, wanted: int) -> None:
    text = f"Dynamic thread count update validation failed for {name}={wanted}"
    if wanted < present // 2:
        raise InvalidConfigurationError(f"{text}, value should be at least half the current value {present}")
    if wanted > present * 2:
        raise InvalidConfigurationError(f"{text}, value should not be greater than double the current value {present}")


def _check_cleaner_threads(present: int, wanted: int) -> None:
    if wanted < present // 2:
        raise InvalidConfigurationError(
            f"Log cleaner threads cannot be reduced to less than half the current value {present}"
        )
    if wanted > present * 2:
        raise InvalidConfigurationError(
            f"Log cleaner threads cannot be increased to more than double the current value {present}"
        )


def _check_retention(new: BrokerLayers) -> None:
    local_ms, local_bytes = "log.local.retention.ms", "log.local.retention.bytes"
    check_local_retention(int(new.value(local_ms) or 0), retention_ms(new), local_ms, "log.retention.ms")
    whole = int(new.value("log.retention.bytes") or 0)
    check_local_retention(int(new.value(local_bytes) or 0), whole, local_bytes, "log.retention.bytes")


def _check_limits(old: BrokerLayers, new: BrokerLayers) -> None:
    """Check that changed connection limits are positive."""
    for name, value in new.set_values.items():
        base = base_name(name)
        if base in _LISTENER_LIMITS and old.set_values.get(name) != value and int(value) <= 0:
            raise InvalidConfigurationError(f"Invalid {base} {value}")


def _check_reporters(new: BrokerLayers) -> None:
    if any(reporter != _REPORTER for reporter in parse_list(new.value("metric.reporters") or "")):
        raise InvalidConfigurationError(
            "Validation of dynamic config update of Set(metric.reporters) failed with class class "
            "kafka.server.DynamicMetricsReporters"
        )
