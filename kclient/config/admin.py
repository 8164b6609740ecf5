"""The options of admin clients."""

from typing import Annotated

from kclient.config.client import CLOSE_TIMEOUT, ClientConfig
from kclient.config.options import milliseconds


class AdminConfig(ClientConfig, frozen=True, kw_only=True):
    """Options of Admin and AsyncAdmin."""

    default_api_timeout_ms: Annotated[int, milliseconds("The timeout of calls without a timeout of their own.")] = (
        60_000
    )
    close_timeout_ms: Annotated[int, milliseconds(CLOSE_TIMEOUT)] = 10_000
    connections_max_idle_ms: Annotated[
        int, milliseconds("Idle connections are closed after this long; -1 for never.", -1)
    ] = 300_000
