"""Forwards requests of clients to the active controller, in an Envelope (KIP-590).

The Envelope has the request as the client sent it, who the client is, and its address, so that the controller can
authorize the client. It accepts an Envelope only from nodes of the cluster. Elsewhere: which requests are forwarded
(`refbroker.server.dispatch`).
"""

from __future__ import annotations

import ipaddress
import logging
import struct

from kclient.errors import KafkaError, RequestTimedOutError, UnknownServerError, UnsupportedVersionError
from kclient.protocol.frames import peek_correlation_id
from kclient.protocol.messages.envelope import DefaultPrincipalData, EnvelopeRequest
from refbroker.peers.controller_client import ControllerClient
from refbroker.security.principals import Principal

logger = logging.getLogger(__name__)

_VERSION = struct.Struct(">h")


def encode_principal(principal: Principal, *, with_token: bool) -> bytes:
    """Return a principal as Kafka's default builder writes it.

    Parameters:
        with_token: whether the client has logged in with a delegation token.
    """
    data = DefaultPrincipalData(type=principal.type, name=principal.name, token_authenticated=with_token)
    return _VERSION.pack(0) + data.encode(0)


class Forwarder:
    """Forwards the requests of clients.

    Parameters:
        controller: sends requests to the active controller.
    """

    def __init__(self, controller: ControllerClient) -> None:
        self._controller = controller

    async def forward(self, frame: bytes, principal: Principal, address: str, *, with_token: bool) -> bytes:
        """Forward a request.

        Parameters:
            frame: its header and body.
            principal: who the client is.
            address: the client's IP address.
            with_token: whether the client has logged in with a delegation token.

        Returns:
            The header and body of the response.

        Raises:
            UnsupportedVersionError: the controller does not support the request; the client's connection must be
                closed, so that the client asks for the versions again.
            RequestTimedOutError: no controller has answered in time.
            UnknownServerError: this broker may not forward requests, or the controller could not read this one.
        """
        envelope = EnvelopeRequest(
            request_data=frame,
            request_principal=encode_principal(principal, with_token=with_token),
            client_host_address=ipaddress.ip_address(address).packed,
        )
        try:
            response = await self._controller.ask(envelope)
        except RequestTimedOutError:
            raise
        except KafkaError as error:
            logger.error("a request could not be forwarded: %s", error)
            raise UnknownServerError("the request could not be forwarded to the controller") from error
        if response.error_code == UnsupportedVersionError.code:
            raise UnsupportedVersionError("the controller does not support this version of the request")
        if response.error_code or response.response_data is None:
            logger.error("the controller refused a forwarded request with error %d", response.error_code)
            raise UnknownServerError("the controller refused the forwarded request")
        data = bytes(response.response_data)
        if len(data) < 4 or peek_correlation_id(data) != _correlation_id(frame):
            logger.error("the controller's response to a forwarded request belongs to another one")
            raise UnknownServerError("the controller's response cannot be used")
        return data


def _correlation_id(frame: bytes) -> int:
    correlation_id: int = struct.unpack_from(">i", frame, 4)[0]
    return correlation_id
