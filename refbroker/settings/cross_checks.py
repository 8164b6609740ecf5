"""Constraints between settings, beyond the type and range of each.

The error texts are Kafka's, because some tools match on them. Not implemented: constraints of the broker's settings for
listeners, security and quorum. Sources: KafkaConfig, LogConfig, ClientMetricsConfigs, GroupConfig.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from kclient.errors import InvalidConfigurationError, InvalidRequestError
from refbroker.settings.client_metrics_table import LEAST_INTERVAL_MS, MATCH_PARAMETERS, MOST_INTERVAL_MS
from refbroker.settings.effective import BrokerLayers, group_values, topic_texts
from refbroker.settings.group_table import GROUP_BOUNDS
from refbroker.settings.topic_table import BROKER_SYNONYMS
from refbroker.settings.values import parse_list, split_list

_MEGABYTE = 1024 * 1024
_FROM_RETENTION = -2
_UNLIMITED = -1


def check_broker(layers: BrokerLayers) -> None:
    """Check the settings of a broker together; each value is valid by itself.

    Raises:
        InvalidConfigurationError: settings contradict each other.
    """

    def number(name: str) -> int:
        return int(layers.value(name) or 0)

    _ensure(number("node.id") == number("broker.id"), "You must set `node.id` to the same value as `broker.id`.")
    _check_logs(layers, number)
    _check_cordoned(layers)
    _check_network(layers, number)
    for kind in ("consumer", "share", "streams"):
        _check_group_defaults(kind, number)


def _ensure(condition: bool, text: str) -> None:
    if not condition:
        raise InvalidConfigurationError(text)


def _require(condition: bool, text: str) -> None:
    """Raise if the condition is false, with the prefix of Scala's `require`, as in some of Kafka's errors."""
    _ensure(condition, f"requirement failed: {text}")


def _check_logs(layers: BrokerLayers, number: Callable[[str], int]) -> None:
    roll = int(layers.first_value(BROKER_SYNONYMS["segment.ms"]) or 0)
    jitter = int(layers.first_value(BROKER_SYNONYMS["segment.jitter.ms"]) or 0)
    retention = retention_ms(layers)
    threads = number("log.cleaner.threads")
    _require(roll >= 1, "log.roll.ms must be greater than or equal to 1")
    _require(jitter >= 0, "log.roll.jitter.ms must be greater than or equal to 0")
    _require(
        retention >= 1 or retention == _UNLIMITED,
        "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
    )
    _require(threads >= 1, "log.cleaner.threads must be at least 1")
    _require(
        number("log.cleaner.dedupe.buffer.size") // threads > _MEGABYTE,
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    )


def _check_network(layers: BrokerLayers, number: Callable[[str], int]) -> None:
    wait = number("replica.fetch.wait.max.ms")
    _require(
        wait <= number("replica.socket.timeout.ms"),
        "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent unnecessary socket "
        "timeouts",
    )
    _require(
        wait <= number("replica.lag.time.max.ms"),
        "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent frequent "
        "changes in ISR",
    )
    queued = number("queued.max.request.bytes")
    _require(
        queued <= 0 or queued >= number("socket.request.max.bytes"),
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
    )
    overrides = connections_per_ip(layers.value("max.connections.per.ip.overrides") or "")
    _require(
        number("max.connections.per.ip") > 0 or bool(overrides),
        "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
    )
    idle, delay = number("connections.max.idle.ms"), number("connection.failed.authentication.delay.ms")
    _require(
        idle < 0 or delay < idle,
        f"connection.failed.authentication.delay.ms={delay} should always be less than connections.max.idle.ms={idle} "
        "to prevent failed authentication responses from timing out",
    )


def retention_ms(layers: BrokerLayers) -> int:
    """Return the retention time of the broker's logs in milliseconds, -1 for no limit."""
    return int(layers.first_value(BROKER_SYNONYMS["retention.ms"]) or _UNLIMITED)


def _check_cordoned(layers: BrokerLayers) -> None:
    cordoned = parse_list(layers.value("cordoned.log.dirs") or "")
    if "*" in cordoned:
        _require(len(cordoned) == 1, "When cordoned.log.dirs is set to *, it must not contain other values")
        return
    directories = parse_list(layers.value("log.dirs") or layers.value("log.dir") or "")
    missing = [directory for directory in cordoned if directory not in directories]
    _require(
        not missing,
        "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : "
        + ", ".join(missing),
    )


def connections_per_ip(text: str) -> dict[str, int]:
    """Return the limits in `max.connections.per.ip.overrides` by IP address or host name.

    Raises:
        InvalidConfigurationError: a limit is not a number.
    """
    limits = {}
    for part in parse_list(text):
        host, _, count = part.rpartition(":")
        if not re.fullmatch(r"[+-]?[0-9]+", count.strip(), re.ASCII):
            raise InvalidConfigurationError(f'For input string: "{count.strip()}"')
        limits[host.strip()] = int(count)
    return limits


def _check_group_defaults(kind: str, number: Callable[[str], int]) -> None:
    """Check that the group defaults are within their bounds, and session timeouts longer than heartbeat intervals."""
    prefix = f"group.{kind}"
    for name, (least, most) in GROUP_BOUNDS.items():
        broker_name = f"group.{name}"
        if not name.startswith(f"{kind}."):
            continue
        if least is not None:
            _ensure(number(most or least) >= number(least), f"{most} must be greater than or equal to {least}")
            _ensure(number(broker_name) >= number(least), f"{broker_name} must be greater than or equal to {least}")
        if most is not None:
            _ensure(number(broker_name) <= number(most), f"{broker_name} must be less than or equal to {most}")
    session, beat = f"{prefix}.session.timeout.ms", f"{prefix}.heartbeat.interval.ms"
    _ensure(number(session) > number(beat), f"{session} must be greater than {beat}")


def check_topic(topic: Mapping[str, str], layers: BrokerLayers, present: Mapping[str, str]) -> None:
    """Check the settings of a topic together; each value is valid by itself.

    Parameters:
        topic: the new settings of the topic.
        layers: the settings of the broker.
        present: the current settings of the topic.

    Raises:
        InvalidConfigurationError: settings contradict each other.
    """
    values = topic_texts(topic, layers)
    least, most = int(values["min.compaction.lag.ms"]), int(values["max.compaction.lag.ms"])
    _ensure(
        least <= most, f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
    )
    if _is_true(values["remote.storage.enable"]):
        _ensure(
            _is_true(layers.value("remote.log.storage.system.enable")),
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        )
        _check_remote_storage(values)
    elif _is_true(present.get("remote.storage.enable")) and not _is_true(values["remote.log.delete.on.disable"]):
        raise InvalidConfigurationError(
            "It is invalid to disable remote storage without deleting remote data. If you want to keep the remote "
            "data and turn to read only, please set `remote.storage.enable=true,remote.log.copy.disable=true`. If you "
            "want to disable remote storage and delete all remote data, please set "
            "`remote.storage.enable=false,remote.log.delete.on.disable=true`."
        )


def _is_true(value: str | None) -> bool:
    return value is not None and value.strip().lower() == "true"


def _check_remote_storage(values: Mapping[str, str]) -> None:
    _ensure(
        split_list(values["cleanup.policy"]) in ([], ["delete"]),
        "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list.",
    )
    for unit in ("bytes", "ms"):
        name, whole = f"local.retention.{unit}", f"retention.{unit}"
        check_local_retention(int(values[name]), int(values[whole]), name, whole)
        if _is_true(values["remote.log.copy.disable"]):
            _ensure(
                int(values[name]) in (_FROM_RETENTION, int(values[whole])),
                f"When `remote.log.copy.disable` is set to true, the `{name}` and `{whole}` must be set to the "
                "identical value because there will be no more logs copied to the remote storage.",
            )


def check_local_retention(local: int, whole: int, name: str, whole_name: str) -> None:
    """Check that the local retention of tiered storage is at most the total retention.

    Parameters:
        local: the local retention in bytes or milliseconds; -2 for the same as the total, -1 for no limit.
        whole: the total retention in the same unit; negative for no limit.
        name, whole_name: the names of the two settings, for the error.

    Raises:
        InvalidConfigurationError: the local retention exceeds the total.
    """
    if whole <= _UNLIMITED or local == _FROM_RETENTION:
        return
    problem = None
    if local == _UNLIMITED:
        problem = f"Value must not be -1 as {whole_name} value is set as {whole}."
    elif local > whole:
        problem = f"Value must not be more than {whole_name} property value: {whole}"
    if problem is not None:
        raise InvalidConfigurationError(f"Invalid value {local} for configuration {name}: {problem}")


def check_client_metrics(subscription: Mapping[str, str]) -> None:
    """Check the settings of a client metrics subscription together; each value is valid by itself.

    Raises:
        InvalidRequestError: the interval is out of bounds.
        InvalidConfigurationError: an entry of `match` is invalid.
    """
    interval = int(subscription.get("interval.ms", LEAST_INTERVAL_MS))
    if not LEAST_INTERVAL_MS <= interval <= MOST_INTERVAL_MS:
        raise InvalidRequestError(
            f"Invalid value {interval} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
        )
    for pattern in split_list(subscription.get("match", "")):
        # Kafka splits at every =, and Java's split drops trailing empty parts.
        parts = pattern.rstrip("=").split("=")
        if len(parts) != 2 or parts[0].strip() not in MATCH_PARAMETERS or not _is_pattern(parts[1].strip()):
            raise InvalidConfigurationError(f"Illegal client matching pattern: {pattern}")


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True


def check_group(group: Mapping[str, str], layers: BrokerLayers) -> None:
    """Check the settings of a group together; each value is valid by itself.

    Parameters:
        group: the new settings of the group.
        layers: the settings of the broker.

    Raises:
        InvalidConfigurationError: a value is outside of the broker's bounds, or a session timeout is not longer than a
            heartbeat interval.
    """
    values = {name: found.value or "" for name, found in group_values(group, layers).items()}
    for name, (least, most) in GROUP_BOUNDS.items():
        if name.endswith(".assignment.interval.ms") and name not in group:
            continue
        if least is not None:
            _ensure(
                int(values[name]) >= int(layers.value(least) or 0), f"{name} must be greater than or equal to {least}"
            )
        if most is not None:
            _ensure(int(values[name]) <= int(layers.value(most) or 0), f"{name} must be less than or equal to {most}")
    for kind in ("consumer", "share", "streams"):
        session, beat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        _ensure(int(values[session]) > int(values[beat]), f"{session} must be greater than {beat}")
