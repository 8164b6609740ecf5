"""The page of metrics for Prometheus over HTTP: `GET /metrics`."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self

import anyio.to_thread

from refbroker.metrics.exposition import CONTENT_TYPE, as_text
from refbroker.metrics.samples import Samples
from refbroker.server.http import HttpError, HttpRequest, HttpResponse, HttpServer

PATH = "/metrics"
COLLECT_SECONDS = 10.0
"""How long the broker may take to collect the metrics; Prometheus itself times out after as long."""


class MetricsPage:
    """Serves the metrics of a running broker. An async context manager, in the broker's event loop.

    The metrics are collected on the loop and rendered in the thread of the request.

    Parameters:
        collect: collects the broker's metrics.
        host: the address to listen on.
        port: 0 picks a free one.

    Attributes:
        url: the page's URL, once it is served.
    """

    def __init__(self, collect: Callable[[], Coroutine[Any, Any, Samples]], host: str, port: int) -> None:
        self.url = ""
        self._collect = collect
        self._server = HttpServer(host, port, {("GET", PATH): self._page})
        self._loop = asyncio.get_running_loop()

    async def __aenter__(self) -> Self:
        self._server.start()
        self.url = f"{self._server.url}{PATH}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # In a thread, so that requests that wait for the loop can finish.
        await anyio.to_thread.run_sync(self._server.close)

    def _page(self, request: HttpRequest) -> HttpResponse:
        collecting = asyncio.run_coroutine_threadsafe(self._collect(), self._loop)
        try:
            samples = collecting.result(COLLECT_SECONDS)
        except (TimeoutError, concurrent.futures.CancelledError) as error:
            collecting.cancel()
            raise HttpError("the broker is too busy, or is stopping", HTTPStatus.SERVICE_UNAVAILABLE) from error
        return HttpResponse(HTTPStatus.OK, CONTENT_TYPE, as_text(samples).encode())
