"""Mistakes in how a client is made or passed on: each is an error that names it."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from kclient import Admin, AsyncAdmin, AsyncConsumer, AsyncProducer, Consumer, Producer
from kclient._misuse import is_coroutine_function, is_plain_callback

BLOCKING: list[type[Any]] = [Producer, Consumer, Admin]
ASYNC: list[type[Any]] = [AsyncProducer, AsyncConsumer, AsyncAdmin]


@pytest.mark.parametrize("client", [*BLOCKING, *ASYNC])
@pytest.mark.parametrize(
    ("given", "kind"),
    [
        pytest.param({"bootstrap.servers": "localhost"}, "dict", id="a mapping"),
        pytest.param(Path("client.properties"), "Path", id="a path"),
    ],
)
def test_properties_as_the_first_argument_are_referred_to_from_properties(
    client: type[Any], given: Any, kind: str
) -> None:
    with pytest.raises(TypeError, match=rf"^{client.__name__} takes its options by keyword, not a \w*{kind}\. "):
        client(given)
    with pytest.raises(TypeError, match=rf"Use {client.__name__}\.from_properties\(\) for a mapping"):
        client(given)


@pytest.mark.parametrize("client", [Producer, AsyncProducer, Admin, AsyncAdmin])
def test_servers_as_the_first_argument_are_refused(client: type[Any]) -> None:
    with pytest.raises(TypeError, match=rf"^{client.__name__} takes its options by keyword, not a str"):
        client("localhost:9092")


def plain(metadata: Any, error: Any) -> None: ...


async def coroutine(metadata: Any, error: Any) -> None: ...


class Methods:
    def plain(self, metadata: Any, error: Any) -> None: ...

    async def coroutine(self, metadata: Any, error: Any) -> None: ...


class AsyncCall:
    async def __call__(self, metadata: Any, error: Any) -> None: ...


@pytest.mark.parametrize(
    ("callback", "is_plain", "is_coroutine"),
    [
        pytest.param(plain, True, False, id="function"),
        pytest.param(Methods().plain, True, False, id="method"),
        pytest.param([].append, True, False, id="built-in"),
        pytest.param(functools.partial(plain), True, False, id="partial"),
        pytest.param(coroutine, False, True, id="async function"),
        pytest.param(Methods().coroutine, False, True, id="async method"),
        pytest.param(functools.partial(coroutine), True, True, id="partial of an async function"),
        pytest.param(AsyncCall(), True, True, id="object with an async call"),
        pytest.param(5, False, False, id="not callable"),
    ],
)
def test_coroutine_functions_are_distinguished_from_plain_callbacks(
    callback: Any, is_plain: bool, is_coroutine: bool
) -> None:
    assert (is_plain_callback(callback), is_coroutine_function(callback)) == (is_plain, is_coroutine)
