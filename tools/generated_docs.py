"""The parts of the documentation that are generated from the code; tools/check_docs.py inserts them into the pages."""

from __future__ import annotations

import enum
import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import msgspec

from kclient import config, errors
from kclient.protocol import API_NAMES
from kclient.records import BatchBuilder
from kclient.records.batch import LEGACY_HEADERS
from kclient.spark.option_table import READ, WRITE, Known
from kclient.spark.options import ReadOptions, WriteOptions
from kclient.state_machine import StateTable
from refbroker.handlers.registry import APIS, CONTROLLER_APIS, Api
from refbroker.metrics.table import METRICS
from refbroker.settings import Setting, broker_settings, topic_settings
from refbroker.settings.documentation import documentation

STARS: dict[object, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def generate(name: str) -> str:
    """Return the Markdown of one generated part.

    Raises:
        KeyError: the part does not exist.
    """
    return PARTS[name]()


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def _limits(option: config.Option) -> str:
    if option.choices:
        return ", ".join(f"`{choice!r}`" for choice in option.choices)
    low = "" if option.minimum is None else f"from {option.minimum}"
    high = "" if option.maximum in (None, config.options.INT_MAX, config.options.LONG_MAX) else f"to {option.maximum}"
    limits = " ".join(part for part in (low, high, option.unit) if part)
    return limits if option.special is None else f"{limits}, or {option.special}"


def _options(of: type[config.ClientConfig], without: type[config.ClientConfig] | None = None) -> str:
    inherited = config.options_of(without) if without else {}
    rows = []
    for name, (option, default) in config.options_of(of).items():
        if name in inherited and inherited[name][1] == default:
            continue
        rows.append((f"`{name}`", f"`{default!r}`", _limits(option), option.doc))
    return _table(("option", "default", "range, unit", "what it does"), rows)


def _spark_options(known: Mapping[str, Known], of: type[msgspec.Struct]) -> str:
    defaults = {field.name: field.default for field in msgspec.structs.fields(of)}
    rows = []
    for one in known.values():
        default = defaults.get(one.field)
        has_default = isinstance(default, bool | int | str)
        rows.append((f"`{one.name}`", f"`{str(default).lower()}`" if has_default else "", one.doc))
    return _table(("option", "default", "what it does"), rows)


def _broker_settings(settings: Callable[[], Mapping[str, Setting]], *, topic: bool) -> str:
    rows = [
        (f"`{name}`", f"`{setting.default}`" if setting.default else "", documentation(setting, topic=topic))
        for name, setting in sorted(settings().items())
        if setting.acted_on
    ]
    return _table(("setting", "default", "what it does"), rows)


def _apis(apis: Mapping[int, Api]) -> str:
    rows = []
    for key, api in sorted(apis.items()):
        text = " ".join((importlib.import_module(f"refbroker.handlers.{api.module}").__doc__ or "").split())
        # The docstring of a handler begins with the API's name, number and versions.
        what, *_ = text.partition(": ")[2].split(". ")
        versions = f"{api.first}" if api.first == api.last else f"{api.first}-{api.last}"
        rows.append((API_NAMES[key], str(key), versions, what.rstrip(".")))
    return _table(("API", "key", "versions", "what it does"), rows)


def _metrics() -> str:
    return _table(
        ("metric", "kind", "labels", "what it is", "Kafka's MBean"),
        (
            (
                f"`{metric.name}`",
                metric.kind,
                ", ".join(f"`{label}`" for label in metric.labels),
                metric.text,
                f"`{metric.mbean}`" if metric.mbean else "",
            )
            for metric in METRICS
        ),
    )


def _first_sentence(kind: type[errors.KafkaError]) -> str:
    return " ".join((inspect.getdoc(kind) or "").partition("\n\n")[0].split())


def _own_errors() -> str:
    kinds = [
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.KafkaError) and kind.code is None
    ]
    rows = ((f"`{kind.__name__}`", "yes" if kind.retriable else "", _first_sentence(kind)) for kind in kinds)
    return _table(("error", "retriable", "what happened, what to do"), rows)


def _broker_errors() -> str:
    return _table(
        ("code", "name", "class", "retriable", "what happened, what to do"),
        (
            (str(code), f"`{kind.name}`", f"`{kind.__name__}`", "yes" if kind.retriable else "", _first_sentence(kind))
            for code, kind in sorted(errors.BrokerError.by_code.items())
        ),
    )


def _methods(module: str, name: str, pure_base: str = "") -> str:
    """Return a table of the public methods of a class: the call, and the first paragraph of the docstring.

    A compiled base class has no docstrings; `pure_base` is its twin, as `module:class`.
    """
    twin: object = None
    if pure_base:
        base_module, _, base_name = pure_base.partition(":")
        twin = getattr(importlib.import_module(base_module), base_name)
    rows = []
    for method, found in inspect.getmembers(getattr(importlib.import_module(module), name)):
        function = getattr(twin, method, found)
        if method.startswith("_") or not (inspect.isroutine(function) or isinstance(function, property)):
            continue
        text = " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split())
        call = method if isinstance(function, property) else f"{method}({_parameters(function)})"
        rows.append((f"`{call}`", text))
    return _table(("call", "what it does"), rows)


def _parameters(function: Callable[..., object]) -> str:
    shown: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not any("*" in name for name in shown):
            shown.append("*")
        mark = STARS.get(parameter.kind, "")
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        shown.append(f"{mark}{parameter.name}{default}")
    return ", ".join(shown)


def _state_name(state: object) -> str:
    name = state.name if isinstance(state, enum.Enum) else str(state)
    return name.lower().replace(" ", "_")


def _state_table(module: str) -> str:
    """Return the state diagram of a module's `STATES`."""
    states: StateTable[Any, Any] = importlib.import_module(module).STATES
    return "\n".join(["```mermaid", states.diagram(), "```", ""])


def _transactional_calls() -> str:
    from kclient.producer.transactions.states import STATES, TransactionCall, TransactionState

    def allowed(call: TransactionCall) -> list[TransactionState]:
        return [state for state in STATES.states if STATES.allows(state, call)]

    rows = [
        (f"`{call.value}`", ", ".join(f"`{_state_name(state)}`" for state in allowed(call))) for call in TransactionCall
    ]
    return _table(("call", "allowed in"), rows)


def _space_of_records() -> str:
    """Return the bytes beside keys and values, for batches of several sizes in format 1 and 2."""
    key, value, lengths = b"k" * 100, b"v" * 900, 8
    rows = []
    for count in (1, 2, 3, 10, 100):
        batch = BatchBuilder()
        for number in range(count):
            batch.append(number, key, value)
        overhead = len(batch.build()) - count * (len(key) + len(value))
        rows.append((str(count), str(count * (LEGACY_HEADERS[1].size + lengths)), str(overhead)))
    return _table(("records in a batch", "format 1", "format 2"), rows)


PARTS: dict[str, Callable[[], str]] = {
    "client options": partial(_options, config.ClientConfig),
    "producer options": partial(_options, config.ProducerConfig, without=config.ClientConfig),
    "consumer options": partial(_options, config.ConsumerConfig, without=config.ClientConfig),
    "admin options": partial(_options, config.AdminConfig, without=config.ClientConfig),
    "Spark read options": partial(_spark_options, READ, ReadOptions),
    "Spark write options": partial(_spark_options, WRITE, WriteOptions),
    "metrics": _metrics,
    "own errors": _own_errors,
    "broker errors": _broker_errors,
    "producer methods": partial(_methods, "kclient", "Producer", "kclient.producer.accumulator:SendPath"),
    "consumer methods": partial(_methods, "kclient", "Consumer"),
    "admin methods": partial(_methods, "kclient", "Admin"),
    "connection states": partial(_state_table, "kclient.net.connection_states"),
    "link states": partial(_state_table, "kclient.net.link"),
    "connectivity states": partial(_state_table, "kclient.net.connectivity"),
    "RefBroker methods": partial(_methods, "refbroker.testing", "RefBroker"),
    "fault methods": partial(_methods, "refbroker.testing.faults", "FaultMethods"),
    "fault handle": partial(_methods, "refbroker.testing.faults", "Fault"),
    "clock methods": partial(_methods, "refbroker.testing.control.clock", "ClockMethods"),
    "broker APIs": partial(_apis, APIS),
    "controller APIs": partial(_apis, {key: api for key, api in CONTROLLER_APIS.items() if key not in APIS}),
    "broker lifecycle states": partial(_state_table, "refbroker.lifecycle.states"),
    "broker liveness states": partial(_state_table, "refbroker.controller.liveness"),
    "broker settings": partial(_broker_settings, broker_settings, topic=False),
    "topic settings": partial(_broker_settings, topic_settings, topic=True),
    "cleaning states": partial(_state_table, "refbroker.log.compaction.states"),
    "replica roles": partial(_state_table, "refbroker.replication.partition"),
    "isr states": partial(_state_table, "refbroker.replication.isr"),
    "fetched partition states": partial(_state_table, "refbroker.replication.fetcher"),
    "shard states": partial(_state_table, "refbroker.coordinators.states"),
    "group states": partial(_state_table, "refbroker.coordinators.groups.classic.states"),
    "consumer group member states": partial(_state_table, "refbroker.coordinators.groups.consumer.states"),
    "transaction coordinator states": partial(_state_table, "refbroker.coordinators.transactions.states"),
    "group member states": partial(_state_table, "kclient.consumer.group.classic.states"),
    "rebalance phases": partial(_state_table, "kclient.consumer.group.classic.phases"),
    "consumer protocol member states": partial(_state_table, "kclient.consumer.group.consumer_protocol.states"),
    "transaction states": partial(_state_table, "kclient.producer.transactions.states"),
    "space of records": _space_of_records,
    "transactional calls": _transactional_calls,
    "consumer partition states": partial(_state_table, "kclient.consumer.assignment.partition_state"),
}
