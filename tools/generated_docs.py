"""The parts of the documentation that are made from the code; tools/check_docs.py puts them into the pages."""

from __future__ import annotations

import enum
import importlib
import inspect
from collections.abc import Callable, Iterable
from functools import partial

from kclient import config, errors


def generate(name: str) -> str:
    """The Markdown of one generated part.

    Raises:
        KeyError: there is no part of that name.
    """
    return PARTS[name]()


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def _limits(option: config.Option) -> str:
    if option.choices:
        return ", ".join(f"`{choice!r}`" for choice in option.choices)
    low = "" if option.minimum is None else f"from {option.minimum}"
    high = "" if option.maximum in (None, config.INT_MAX, config.LONG_MAX) else f"to {option.maximum}"
    return " ".join(part for part in (low, high, option.unit) if part)


def _options(of: type[config.ClientConfig], without: type[config.ClientConfig] | None = None) -> str:
    inherited = config.options_of(without) if without else {}
    rows = []
    for name, (option, default) in config.options_of(of).items():
        if name in inherited and inherited[name][1] == default:
            continue
        rows.append((f"`{name}`", f"`{default!r}`", _limits(option), option.doc))
    return _table(("option", "default", "range, unit", "what it does"), rows)


def _first_sentence(kind: type[errors.KafkaError]) -> str:
    return " ".join(inspect.getdoc(kind).partition("\n\n")[0].split())


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


def _state_name(state: object) -> str:
    name = state.name if isinstance(state, enum.Enum) else str(state)
    return name.lower().replace(" ", "_")


def _diagram(module: str, table: str = "TRANSITIONS") -> str:
    """A mermaid state diagram of a table: state -> the states that may follow."""
    transitions = getattr(importlib.import_module(module), table)
    # Sets have no order of their own; the declaration order of the states is the readable one.
    order = {state: position for position, state in enumerate(transitions)}
    lines = [
        f"    {_state_name(state)} --> {_state_name(following)}"
        for state, allowed in transitions.items()
        for following in sorted(allowed, key=lambda state: order.get(state, len(order)))
    ]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```", ""])


PARTS: dict[str, Callable[[], str]] = {
    "client options": partial(_options, config.ClientConfig),
    "producer options": partial(_options, config.ProducerConfig, without=config.ClientConfig),
    "consumer options": partial(_options, config.ConsumerConfig, without=config.ClientConfig),
    "admin options": partial(_options, config.AdminConfig, without=config.ClientConfig),
    "own errors": _own_errors,
    "broker errors": _broker_errors,
    "consumer partition states": partial(_diagram, "kclient.consumer.partition_state"),
}
