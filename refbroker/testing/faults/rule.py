"""A rule: the requests of a fault, and its action.

A rule is data. Elsewhere: its count (`registry`) and its application (`injection`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self, TypeVar

from kclient.errors import BrokerError, ConfigError, KafkaError, error_for
from kclient.protocol import API_NAMES, request_type
from kclient.protocol.fields import fields_of
from kclient.protocol.schema import Struct
from refbroker.handlers.naming import mentions_topics
from refbroker.settings.hints import nearest

E = TypeVar("E", bound=StrEnum)

ANY_API = "*"


class Action(StrEnum):
    """The action of a fault."""

    FAIL = "fail"
    DELAY = "delay"
    DROP = "drop"
    CUT = "cut"
    CORRUPT = "corrupt"
    TRUNCATE = "truncate"


class When(StrEnum):
    """Whether a fault is applied before or after a request takes effect."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class Rule:
    """The requests of a fault, and what happens to them.

    Attributes:
        action: the action.
        api_key: the key of the API; None for every one.
        when: before or after the request took effect.
        count: the number of requests; None for all until it is removed.
        topic, partition: only requests that name these; None for any.
        client_id: only requests of clients with this id; None for any.
        version: only requests of this version of the API; None for any.
        error: the code of a failure.
        message: the message beside it, if the API has one.
        seconds: the duration of a delay; None until it is removed.
    """

    action: Action
    api_key: int | None
    when: When = When.BEFORE
    count: int | None = 1
    topic: str | None = None
    partition: int | None = None
    client_id: str | None = None
    version: int | None = None
    error: int = 0
    message: str | None = None
    seconds: float | None = None

    @classmethod
    def make(
        cls,
        action: str,
        api: str | int,
        *,
        error: str | int | type[KafkaError] | KafkaError | None = None,
        when: str | None = None,
        **rest: Any,
    ) -> Self:
        """Return the rule for the arguments of a test.

        Parameters:
            action: one of `Action`.
            api: Kafka's name or key of an API, "*" for all.
            error: Kafka's name or code of an error, its class, or an instance.
            when: "before" or "after"; None for the action's default.
            rest: the other attributes.

        Raises:
            ConfigError: the API, error or attribute does not exist, or the API cannot have such a fault.
        """
        unknown = sorted(rest.keys() - _JSON_TYPES.keys())
        if unknown:
            raise ConfigError(f"a fault has no {', '.join(unknown)}; it has {', '.join(_JSON_TYPES)}")
        kind = _member(Action, action)
        api_key = _api_key(api)
        code, text = (0, None) if error is None else _error(error)
        rest.setdefault("message", text)
        damages_answer = kind is Action.TRUNCATE or (kind is Action.CORRUPT and not _sends_records(api_key))
        usual = When.AFTER if damages_answer else When.BEFORE
        moment = usual if when is None else _member(When, when)
        rule = cls(kind, api_key, moment, error=code, **rest)
        rule._check(usual)
        return rule

    def _check(self, usual: When) -> None:
        if self.count is not None and self.count < 1:
            raise ConfigError(f"count must be at least 1, not {self.count}; None means all requests")
        if self.seconds is not None and not 0 <= self.seconds < float("inf"):
            raise ConfigError(f"seconds must be a finite number from 0, not {self.seconds}")
        if self.topic == "":
            raise ConfigError("topic must not be empty; omit it to match all topics")
        if self.action is Action.FAIL and not self.error:
            raise ConfigError("a failure needs an error other than NONE")
        if self.action in (Action.CORRUPT, Action.TRUNCATE) and self.when is not usual:
            raise ConfigError(f"{self.api} can only be damaged {usual} it took effect")
        if self.action is Action.CORRUPT and (self.api_key is None or not _has_records(self.api_key)):
            raise ConfigError(f"{self.api} has no records to corrupt; truncate damages any response")
        if self.api_key is None:
            return
        kind = request_type(self.api_key)
        if (self.topic, self.partition) != (None, None) and not mentions_topics(kind):
            raise ConfigError(f"requests of {self.api} name no topics")
        if self.version is not None and not kind.min_version <= self.version <= kind.max_version:
            raise ConfigError(f"{self.api} has versions {kind.min_version} to {kind.max_version}, not {self.version}")

    @property
    def api(self) -> str:
        """Kafka's name of the API, "*" for all."""
        return ANY_API if self.api_key is None else API_NAMES[self.api_key]

    @property
    def is_for_part(self) -> bool:
        """Whether it is only for some topics or partitions of a request."""
        return self.topic is not None or self.partition is not None

    def covers(self, topic: str | None, partition: int | None) -> bool:
        """Return whether it is for a topic and partition; for a topic as a whole if `partition` is None."""
        return (
            topic is not None
            and self.topic in (None, topic)
            and (self.partition is None or self.partition == partition)
        )

    def touches(self, topic: str, partition: int | None) -> bool:
        """Return whether it is for a topic and partition, or for one partition of a topic that is named as a whole."""
        return self.covers(topic, partition) or (partition is None and self.topic in (None, topic))

    def as_json(self) -> dict[str, Any]:
        """Return the rule as the control port shows it and `from_json` reads it."""
        given: dict[str, Any] = {
            "action": str(self.action),
            "api": self.api,
            "when": str(self.when),
            "count": self.count,
        }
        if self.error:
            given["error"] = error_for(self.error).name if self.error in BrokerError.by_code else self.error
        optional = ("topic", "partition", "client_id", "version", "message", "seconds")
        return given | {name: getattr(self, name) for name in optional if getattr(self, name) is not None}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """Return the rule of `as_json`'s result; raise ConfigError if it is invalid."""
        rest = dict(given)
        for name, kinds in _JSON_TYPES.items():
            value = rest.get(name)
            if value is not None and (not isinstance(value, kinds) or isinstance(value, bool)):
                wanted = " or ".join(kind.__name__ for kind in kinds)
                raise ConfigError(f"{name} must be {wanted}, not {value!r}")
        for name in ("action", "api"):
            if rest.get(name) is None:
                raise ConfigError(f"a fault needs an {name}")
        return cls.make(rest.pop("action"), rest.pop("api"), **rest)


_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "action": (str,),
    "api": (str, int),
    "when": (str,),
    "count": (int,),
    "topic": (str,),
    "partition": (int,),
    "client_id": (str,),
    "version": (int,),
    "error": (str, int),
    "message": (str,),
    "seconds": (int, float),
}


def _member(kind: type[E], value: str) -> E:
    try:
        return kind(value)
    except ValueError:
        raise ConfigError(f"{value!r} must be one of {', '.join(kind)}") from None


def _api_key(api: str | int) -> int | None:
    if api == ANY_API:
        return None
    if isinstance(api, int):
        if api in API_NAMES:
            return api
        raise ConfigError(f"Kafka has no API with key {api}")
    for key, name in API_NAMES.items():
        if name == api:
            return key
    raise ConfigError(f"Kafka has no API {api!r}{_hint(api, API_NAMES.values())}")


def _error(error: str | int | type[KafkaError] | KafkaError) -> tuple[int, str]:
    """Return the code and the message of an error."""
    if isinstance(error, str):
        names = {kind.name: kind for kind in BrokerError.by_code.values()}
        if error not in names:
            raise ConfigError(f"Kafka has no error {error!r}{_hint(error, names)}")
        error = names[error]
    elif isinstance(error, int):
        return error, error_for(error)().message
    given = error if isinstance(error, KafkaError) else error()
    if given.code is None:
        raise ConfigError(f"{given.name} is an error of clients; brokers have no code for it")
    return given.code, given.message


def _hint(name: str, names: Iterable[str]) -> str:
    like = nearest(name, names)
    return f"; did you mean {like}?" if like else ""


def _has_records(api_key: int) -> bool:
    kind = request_type(api_key)
    return _carries_records(kind) or _carries_records(kind.response_type)


def _sends_records(api_key: int | None) -> bool:
    """Return whether the request contains the records."""
    return api_key is not None and _carries_records(request_type(api_key))


def _carries_records(kind: type[Struct]) -> bool:
    for field in fields_of(kind):
        inner = field.type.element.struct if field.type.element is not None else None
        if field.type.name == "records" or (inner is not None and _carries_records(inner)):
            return True
    return False
