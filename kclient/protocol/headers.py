"""The headers of requests and responses."""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, message
from kclient.protocol.schema import int16, int32, not_flexible


@message(versions="1-2", flexible="2+")
class RequestHeader(Message):
    """The header of every request: version 1 for requests that are not flexible, 2 for those that are."""

    request_api_key: int16 = 0
    request_api_version: int16 = 0
    correlation_id: int32 = 0
    client_id: Annotated[str | None, not_flexible] = ""


@message(versions="0-1", flexible="1+")
class ResponseHeader(Message):
    """The header of every response: version 1 for flexible responses, except that of ApiVersions; otherwise 0."""

    correlation_id: int32 = 0
