"""The page of metrics over HTTP, for Prometheus: `GET /metrics`."""

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
"""How long the broker may take to read its numbers; Prometheus itself gives up after as long."""


class MetricsPage:
    """Serves the metrics of a running broker. An async context manager, in the broker's event loop.

    The numbers are read on the loop; text is made of them in the thread of the request.

    Parameters:
        collect: reads the metrics of the broker.
        host: the address to listen on.
        port: 0 picks a free one.

    Attributes:
        url: of the page, once it serves.
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
        # In a thread: requests that wait for the loop can then end.
        await anyio.to_thread.run_sync(self._server.close)

    def _page(self, request: HttpRequest) -> HttpResponse:
        collecting = asyncio.run_coroutine_threadsafe(self._collect(), self._loop)
        try:
            samples = collecting.result(COLLECT_SECONDS)
        except (TimeoutError, concurrent.futures.CancelledError) as error:
            collecting.cancel()
            raise HttpError("the broker is too busy, or stops", HTTPStatus.SERVICE_UNAVAILABLE) from error
        return HttpResponse(HTTPStatus.OK, CONTENT_TYPE, as_text(samples).encode())
