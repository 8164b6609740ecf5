"""How a connection is set up before the first request: a list of steps, each a generator.

A step yields requests and is sent the bodies of their answers; it knows no socket and never waits,
so that TLS and SASL become two more steps. Today there is one, ApiVersions, which finds out what
the broker speaks. Elsewhere: the connection itself, and how long set-up may take.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Mapping
from typing import NamedTuple

from kclient.errors import ProtocolError, UnsupportedVersionError, raise_for_code
from kclient.protocol import Message
from kclient.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kclient.protocol.messages.join_group import JoinGroupRequest
from kclient.protocol.messages.sync_group import SyncGroupRequest

SOFTWARE_NAME = "kclient"


class ApiRanges:
    """The versions of each API that a broker accepts.

    Parameters:
        broker: how errors name it.
        ranges: by API key, the first and the last version.
        features: the finalized features by name, with their levels (KIP-584).
        features_epoch: grows whenever they change; -1 while they are not known.
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
        """The version to use for an API; None if the broker has none that is known here."""
        found = self._best.get(request_type.api_key)
        if found is None:
            first, last = self.ranges.get(request_type.api_key, (0, -1))
            found = min(last, request_type.max_version)
            if found < max(first, request_type.min_version):
                return None
            self._best[request_type.api_key] = found
        return found

    def negotiate(self, request_type: type[Message], minimum: int | None = None, maximum: int | None = None) -> int:
        """The version to use for a request.

        Parameters:
            minimum, maximum: narrow the range that is known here.

        Raises:
            UnsupportedVersionError: no version fits; it names the API, both ranges and the broker.
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


class Setup:
    """What the steps find out, and what they need to know.

    Attributes:
        broker: how errors name the peer.
        ranges: what it speaks, once ApiVersions answered.
    """

    def __init__(self, broker: str, software_version: str) -> None:
        self.broker = broker
        self.software_version = software_version
        self.ranges = ApiRanges(broker)


Exchange = Generator[Ask, memoryview, None]
Step = Callable[[Setup], Exchange]


def find_versions(setup: Setup) -> Exchange:
    """Ask for the versions the broker accepts; with an older version of the question if it does not know this one."""
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


# The mock cluster of librdkafka ends with these, and reads them as if they were encoded like the versions before, which
# carry the same. No other broker ends there but Kafka 2.4, which loses nothing by the older ones.
_ENCODED_ANEW = {JoinGroupRequest.api_key: 6, SyncGroupRequest.api_key: 4}

PLAINTEXT_STEPS: tuple[Step, ...] = (find_versions,)


def _error_code(body: memoryview) -> int:
    if len(body) < 2:
        raise ProtocolError("the bytes end within the answer to ApiVersions")
    code: int = struct.unpack_from(">h", body)[0]
    return code


def _last_version(entry: ApiVersionsResponse.ApiVersion) -> int:
    at_the_end = entry.min_version < entry.max_version == _ENCODED_ANEW.get(entry.api_key)
    return entry.max_version - 1 if at_the_end else entry.max_version


def _older_version(body: memoryview, asked: int) -> int:
    """Which version to ask with next: the answer to an unknown one is at version 0, at best with the broker's range."""
    try:
        response, _ = ApiVersionsResponse.decode_prefix(body, 0)
    except ProtocolError:
        return 0
    for entry in response.api_keys:
        if entry.api_key == ApiVersionsRequest.api_key and entry.min_version <= entry.max_version:
            return max(0, min(entry.max_version, asked - 1))
    return 0
