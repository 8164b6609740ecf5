"""What `help` shows of the clients beyond their own docstrings: the options, with defaults and units.

Elsewhere: the options themselves (`kclient.config`) and their names for editors (`kclient.options`).
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import TypeVar

from kclient.config import ClientConfig, options_of

Client = TypeVar("Client")
WIDTH = 100


class _DocWithOptions:
    """The docstring of a client class followed by its options; composed when `help` asks for it."""

    def __init__(self, text: str, config: type[ClientConfig]) -> None:
        self._text = inspect.cleandoc(text)
        self._config = config

    def __get__(self, instance: object, owner: type) -> str:
        return "\n".join([self._text, "", "Options:", *_option_lines(self._config)])


def _option_lines(config: type[ClientConfig]) -> list[str]:
    lines = []
    for name, (option, default) in sorted(options_of(config).items()):
        unit = f" {option.unit}" if option.unit else ""
        lines.append(f"    {name} = {default!r}{unit}")
        lines += textwrap.wrap(option.doc, WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 8)
    return lines


def documents_options(config: type[ClientConfig]) -> Callable[[type[Client]], type[Client]]:
    """Return a class decorator that appends the options of `config` to what `help` shows of the class."""

    def decorate(client: type[Client]) -> type[Client]:
        type.__setattr__(client, "__doc__", _DocWithOptions(client.__doc__ or "", config))
        return client

    return decorate
