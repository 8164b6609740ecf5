"""Frames: sizes and headers around requests and responses."""

from __future__ import annotations

import pytest

from kclient.errors import ProtocolError
from kclient.protocol import API_NAMES, frames, request_type
from kclient.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kclient.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def test_a_request_is_framed_with_size_and_header() -> None:
    frame = b"".join(frames.encode_request(HeartbeatRequest(group_id="g"), 0, 42, "me"))
    assert frame.hex(" ") == "00 00 00 15 00 0c 00 00 00 00 00 2a 00 02 6d 65 00 01 67 00 00 00 00 00 00"


def test_a_flexible_request_has_tagged_fields_in_its_header_but_an_old_client_id() -> None:
    frame = b"".join(frames.encode_request(HeartbeatRequest(group_id="g"), 4, 42, "me"))
    assert frame[4:].hex(" ").startswith("00 0c 00 04 00 00 00 2a 00 02 6d 65 00 02 67")


@pytest.mark.parametrize("api_key", API_NAMES)
def test_every_request_and_response_comes_out_of_its_frame(api_key: int) -> None:
    kind = request_type(api_key)
    for version in (kind.min_version, kind.max_version):
        frame = b"".join(frames.encode_request(kind(), version, 7, None))
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        header, body = frames.decode_request_header(frame[4:])
        assert (header.request_api_key, header.request_api_version) == (api_key, version)
        assert (header.correlation_id, header.client_id) == (7, None)
        assert kind.decode(body, version) == kind()

        frame = b"".join(frames.encode_response(kind.response_type(), version, 2**31 - 1))
        assert frames.peek_correlation_id(frame[4:]) == 2**31 - 1
        correlation_id, body = frames.decode_response_header(api_key, version, frame[4:])
        assert correlation_id == 2**31 - 1
        assert kind.response_type.decode(body, version) == kind.response_type()


def test_the_response_header_of_api_versions_is_always_the_old_one() -> None:
    assert frames.response_header_version(ApiVersionsResponse, 4) == 0
    assert frames.request_header_version(ApiVersionsRequest, 4) == 2
    assert frames.response_header_version(HeartbeatResponse, 4) == 1


def test_the_header_of_an_unknown_version_of_api_versions_can_be_read() -> None:
    frame = bytearray(b"".join(frames.encode_request(ApiVersionsRequest(), 4, 9, "future")))
    frame[6:8] = b"\x00\x63"
    header, _ = frames.decode_request_header(frame[4:])
    assert (header.request_api_version, header.correlation_id, header.client_id) == (99, 9, "future")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "end within"),
        (b"GET / HTTP/1.1\r\n\r\n", "no API with key 18245"),
        (b"\x00\x0c\x00\x63\x00\x00\x00\x01\xff\xff", "HeartbeatRequest has versions 0 to 4, not 99"),
        (b"\x00\x0c\x00\x00\x00\x00", "RequestHeader v1"),
        (b"\x00\x12\xff\xff\x00\x00\x00\x01\xff\xff", "not -1"),
    ],
)
def test_what_is_no_request_is_an_error(data: bytes, text: str) -> None:
    with pytest.raises(ProtocolError, match=text):
        frames.decode_request_header(data)


def test_a_response_too_short_for_its_header_is_an_error() -> None:
    with pytest.raises(ProtocolError):
        frames.decode_response_header(12, 4, b"\0\0\0\1")
    with pytest.raises(ProtocolError):
        frames.peek_correlation_id(b"\0\0\0")
