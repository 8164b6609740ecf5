"""Encodes and decodes the frames of requests and responses: a size, a header, the body.

    frame    := size:int32 header body
    request  := api_key api_version correlation_id client_id [tagged fields] body
    response := correlation_id [tagged fields] body

The reader of a stream strips the size; the functions for decoding take the bytes behind it.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any

from kclient.errors import ProtocolError
from kclient.protocol import request_type
from kclient.protocol.declaration import Message
from kclient.protocol.headers import RequestHeader, ResponseHeader

API_VERSIONS = 18

_SIZE = struct.Struct(">i")
_START = struct.Struct(">hh")
_REQUEST_START = struct.Struct(">hhi")
_CORRELATION_ID = struct.Struct(">i")


def request_header_version(message: type[Message], version: int) -> int:
    """Return the version of the header of a request."""
    return 2 if message.is_flexible(version) else 1


def response_header_version(message: type[Message], version: int) -> int:
    """Return the version of the header of a response.

    ApiVersions always uses version 0: a client must be able to decode the response of a broker that does not support
    the requested version (KIP-511).
    """
    return 1 if message.is_flexible(version) and message.api_key != API_VERSIONS else 0


def encode_request(message: Message, version: int, correlation_id: int, client_id: str | None) -> list[Any]:
    """Encode a request as a whole frame.

    Returns:
        The parts to send, in order: bytes and, unchanged, records.

    Raises:
        ProtocolError: the version cannot carry the message.
    """
    rest = _after_correlation_id(request_header_version(type(message), version), client_id)
    return _frame(_REQUEST_START.pack(message.api_key, version, correlation_id) + rest, message, version)


@lru_cache(maxsize=256)
def _after_correlation_id(header_version: int, client_id: str | None) -> bytes:
    """Return the part of a request's header that is the same in all requests of a client."""
    return RequestHeader(client_id=client_id).encode(header_version)[_REQUEST_START.size :]


def encode_response(message: Message, version: int, correlation_id: int) -> list[Any]:
    """Encode a response as a whole frame; returns and raises like `encode_request`."""
    header = ResponseHeader(correlation_id=correlation_id)
    return _frame(header.encode(response_header_version(type(message), version)), message, version)


def _frame(header: bytes, message: Message, version: int) -> list[Any]:
    parts = message.encode_parts(version)
    size = len(header) + sum(map(len, parts))
    if size > 0x7FFFFFFF:
        raise ProtocolError(f"{message.message_name} v{version}: {size} bytes do not fit into a frame")
    # The first part is never a record: lengths precede records.
    parts[0] = _SIZE.pack(size) + header + parts[0]
    return parts


def decode_request_header(data: bytes | bytearray | memoryview) -> tuple[RequestHeader, memoryview]:
    """Decode the header of a request; return it and the body.

    Raises:
        ProtocolError: the API or version is unknown, or the bytes are malformed. For an unknown version of ApiVersions,
            which gets a response, the part of the header that all versions share is decoded.
    """
    if len(data) < _START.size:
        raise ProtocolError("the bytes end within the header of a request")
    api_key, version = _START.unpack_from(data)
    try:
        message = request_type(api_key)
    except LookupError as error:
        raise ProtocolError(f"{error}") from error
    if message.min_version <= version <= message.max_version:
        header_version = request_header_version(message, version)
    elif api_key == API_VERSIONS and version >= 0:
        header_version = 2
    else:
        wanted = f"versions {message.min_version} to {message.max_version}, not {version}"
        raise ProtocolError(f"{message.message_name} has {wanted}")
    header, used = RequestHeader.decode_prefix(data, header_version)
    return header, memoryview(data)[used:]


def decode_response_header(api_key: int, version: int, data: bytes | bytearray | memoryview) -> tuple[int, memoryview]:
    """Decode the header of a response to a request of this API and version; return the correlation id and the body.

    Raises:
        ProtocolError: the bytes are malformed.
    """
    message = request_type(api_key)
    header, used = ResponseHeader.decode_prefix(data, response_header_version(message, version))
    return header.correlation_id, memoryview(data)[used:]


def peek_correlation_id(data: bytes | bytearray | memoryview) -> int:
    """Return the correlation id of a response, which comes first in every version of its header.

    Raises:
        ProtocolError: there are fewer than four bytes.
    """
    if len(data) < _CORRELATION_ID.size:
        raise ProtocolError("the bytes end within the header of a response")
    correlation_id: int = _CORRELATION_ID.unpack_from(data)[0]
    return correlation_id
