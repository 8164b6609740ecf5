"""How a connection is set up before the first request: a list of steps, each a generator.

A step yields requests and receives the bodies of their responses, or bytes that are no request and receives the bytes
of the peer, or something that another thread computes and receives the result; it uses no socket and never blocks.
ApiVersions comes first and returns the versions that the broker supports. Elsewhere: SASL (`sasl`), the connection
itself, and how long set-up may take.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Mapping
from typing import Any, NamedTuple

from kclient.errors import ProtocolError, UnsupportedVersionError, raise_for_code
from kclient.protocol import Message
from kclient.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kclient.protocol.messages.join_group import JoinGroupRequest
from kclient.protocol.messages.sync_group import SyncGroupRequest

SOFTWARE_NAME = "kclient"


class ApiRanges:
    """The versions of each API that a broker accepts.

    Parameters:
        broker: its name in errors.
        ranges: by API key, the first and the last version.
        features: the finalized features by name, with their levels (KIP-584).
        features_epoch: grows with each change; -1 while they are unknown.
    """

    def __init__(
        self,
        broker: str,
        ranges: Mapping[int, tuple[int, int]] | None = None,
        features: Mapping[str, int] | None = None,
        features_epoch: int = -1,
    ) -> None:
        self.broker = broker
        self.ranges = dict(ranges or {})
        self.features = dict(features or {})
        self.features_epoch = features_epoch
        self._best: dict[int, int] = {}

    def version(self, request_type: type[Message]) -> int | None:
        """Return the version to use for an API; None if no version is supported by both sides."""
        found = self._best.get(request_type.api_key)
        if found is None:
            first, last = self.ranges.get(request_type.api_key, (0, -1))
            found = min(last, request_type.max_version)
            if found < max(first, request_type.min_version):
                return None
            self._best[request_type.api_key] = found
        return found

    def negotiate(self, request_type: type[Message], minimum: int | None = None, maximum: int | None = None) -> int:
        """Return the version to use for a request.

        Parameters:
            minimum, maximum: narrow the range that this client supports.

        Raises:
            UnsupportedVersionError: no version fits; the message names the API, both ranges and the broker.
        """
        if minimum is None and maximum is None and (best := self.version(request_type)) is not None:
            return best
        name = request_type.message_name.removesuffix("Request")
        first = request_type.min_version if minimum is None else max(minimum, request_type.min_version)
        last = request_type.max_version if maximum is None else min(maximum, request_type.max_version)
        if request_type.api_key not in self.ranges:
            raise UnsupportedVersionError(
                f"the broker does not have the API {name}, of which this client would use versions {first} to {last}",
                broker=self.broker,
                api=name,
            )
        theirs = self.ranges[request_type.api_key]
        version = min(last, theirs[1])
        if version < max(first, theirs[0]):
            raise UnsupportedVersionError(
                f"the broker accepts versions {theirs[0]} to {theirs[1]} of {name}, "
                f"this client would use {first} to {last}",
                broker=self.broker,
                api=name,
            )
        return version


class Ask(NamedTuple):
    """A request of a step."""

    message: Message
    version: int


class BareMessage(NamedTuple):
    """Bytes of a step without a request around them, as after SaslHandshake version 0.

    Attributes:
        data: the bytes, which may be empty.
        advice: what to check if the peer closes the connection instead of responding.
        is_answered: whether bytes of the peer follow; else the step receives None at once.
    """

    data: bytes
    advice: str
    is_answered: bool = True


class Await(NamedTuple):
    """Something that a step needs and that another thread computes, such as a token.

    Attributes:
        start: starts the computation. It takes a function to call once, on the network thread, with the result or a
            KafkaError to raise in the step, and with the time.
        what: the computation, for the error of a step that waits for too long.
    """

    start: Callable[[Callable[[Any, float], None]], None]
    what: str


class Setup:
    """The input and the results of the steps.

    Attributes:
        broker: the peer's name in errors.
        host: the name of its host.
        protocol: the security protocol of the client.
        ranges: the supported versions, once ApiVersions was answered.
        reauthenticate_after: the seconds after which to run `reauthenticate`; None if the session does not end.
        reauthenticate: the step that authenticates the client again.
    """

    def __init__(self, broker: str, host: str, software_version: str, protocol: str) -> None:
        self.broker = broker
        self.host = host
        self.protocol = protocol
        self.software_version = software_version
        self.ranges = ApiRanges(broker)
        self.reauthenticate_after: float | None = None
        self.reauthenticate: Step | None = None


Exchange = Generator[Ask | BareMessage | Await, Any, None]
Step = Callable[[Setup], Exchange]


def find_versions(setup: Setup) -> Exchange:
    """Request the versions that the broker accepts; retry with an older ApiVersions if it does not know this one."""
    version = ApiVersionsRequest.max_version
    while True:
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=setup.software_version)
        body = yield Ask(request, version)
        code = _error_code(body)
        if code == UnsupportedVersionError.code and version > 0:
            version = _older_version(body, version)
            continue
        if code:
            raise_for_code(code, broker=setup.broker, api="ApiVersions")
        response, _ = ApiVersionsResponse.decode_prefix(body, version)
        setup.ranges = ApiRanges(
            setup.broker,
            {entry.api_key: (entry.min_version, _last_version(entry)) for entry in response.api_keys},
            {feature.name: feature.max_version_level for feature in response.finalized_features},
            response.finalized_features_epoch,
        )
        return


# librdkafka's mock cluster supports nothing newer than these, and decodes them like the versions before, which have the
# same fields. The only other broker with this limit is Kafka 2.4, which loses nothing by the older ones.
_FLEXIBLE_SINCE = {JoinGroupRequest.api_key: 6, SyncGroupRequest.api_key: 4}


def _error_code(body: memoryview) -> int:
    if len(body) < 2:
        raise ProtocolError("the response to ApiVersions is incomplete")
    code: int = struct.unpack_from(">h", body)[0]
    return code


def _last_version(entry: ApiVersionsResponse.ApiVersion) -> int:
    at_the_end = entry.min_version < entry.max_version == _FLEXIBLE_SINCE.get(entry.api_key)
    return entry.max_version - 1 if at_the_end else entry.max_version


def _older_version(body: memoryview, asked: int) -> int:
    """Return the version to retry with: the response to an unknown one has version 0, and usually the broker's
    range.
    """
    try:
        response, _ = ApiVersionsResponse.decode_prefix(body, 0)
    except ProtocolError:
        return 0
    for entry in response.api_keys:
        if entry.api_key == ApiVersionsRequest.api_key and entry.min_version <= entry.max_version:
            return max(0, min(entry.max_version, asked - 1))
    return 0
