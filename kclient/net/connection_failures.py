"""Why a connection was closed, or could not be set up, and what the user should check.

Elsewhere: errors of TLS (`tls_failures`), and of requests (`failures`).
"""

from __future__ import annotations

from typing import NamedTuple

from kclient._text import address
from kclient.config.security_values import LISTENERS, PLAINTEXT, WITH_SASL, WITH_TLS
from kclient.errors import BrokerConnectionError, DisconnectedError, KafkaError, NotKafkaError, ProtocolError
from kclient.net.connection_states import State
from kclient.net.events import BadFrame, PeerClosed
from kclient.net.handshake import Ask, BareMessage


class Peer(NamedTuple):
    """The peer of a connection; `name` is its name in errors, `protocol` is the security protocol of the client."""

    name: str
    host: str
    port: int
    protocol: str = PLAINTEXT

    @property
    def listener(self) -> str:
        """What the client expects at the port, for errors."""
        return LISTENERS[self.protocol]


class ConnectionFailures:
    """The errors of the connections to one peer."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    def no_answer(self, state: State, seconds: str, awaited: str | None) -> BrokerConnectionError:
        """Return the error of a set-up that takes too long.

        Parameters:
            state: the state of the connection.
            seconds: how long, as in "for 3 s".
            awaited: what the client itself computes, if it waits for that.
        """
        if state is State.CONNECTING:
            return self._unreachable(f"no connection {seconds}")
        if awaited is not None:
            return self._unreachable(f"{awaited} did not return {seconds}", "check what it waits for")
        what = "the TLS handshake did not complete" if state is State.TLS_HANDSHAKE else "received no response"
        return self._unreachable(
            f"connected, but {what} {seconds}",
            f"check that this is a {self._peer.listener} listener of a Kafka broker, and that it is not overloaded",
        )

    def closed_in_setup(self, reason: Exception, asked: Ask | BareMessage | None) -> KafkaError:
        """Return the error of a connection that ended before it was set up.

        Parameters:
            reason: what the channel reports.
            asked: what the peer was to answer.
        """
        if isinstance(reason, BadFrame):
            return self._stranger(reason.head)
        if not isinstance(reason, PeerClosed):
            return self._unreachable(reason.strerror if isinstance(reason, OSError) and reason.strerror else reason)
        if isinstance(asked, BareMessage):
            return self._unreachable("the broker closed the connection during the login", asked.advice)
        if reason.head:
            return self._stranger(reason.head, " and closed the connection")
        advice = f"check that this is a {self._peer.listener} listener of a Kafka broker"
        if self._peer.protocol in WITH_TLS:
            advice += f"; if it has TLS, {self._set_tls}"
        api = type(asked.message).message_name.removesuffix("Request") if asked is not None else "ApiVersions"
        return self._unreachable(f"the peer closed the connection instead of responding to {api}", advice)

    def closed(self, reason: Exception, unanswered: str | None) -> KafkaError:
        """Return the error of a connection that was in use.

        Parameters:
            reason: what the channel reports.
            unanswered: the API of the first request, if the peer has never responded.
        """
        broker = self._peer.name
        if isinstance(reason, BadFrame):
            return ProtocolError(f"{reason}", broker=broker)
        if not isinstance(reason, PeerClosed):
            return DisconnectedError(f"the connection was lost: {reason}", broker=broker)
        if unanswered is None:
            return DisconnectedError(f"{reason}", broker=broker)
        with_sasl = WITH_SASL.get(self._peer.protocol)
        advice = f'; if this listener has SASL, set security_protocol="{with_sasl}"' if with_sasl else ""
        return DisconnectedError(f"{reason} instead of responding to {unanswered}{advice}", broker=broker)

    def malformed(self, error: ProtocolError) -> NotKafkaError:
        """Return the error of a malformed response during set-up."""
        return self.not_kafka(f"a response that is not Kafka's protocol ({error.message})")

    def not_kafka(self, what: str, advice: str = "check host and port") -> NotKafkaError:
        """Return the error of a peer that sent something other than Kafka's protocol."""
        return NotKafkaError(
            f"{address(self._peer.host, self._peer.port)} is not a {self._peer.listener} listener of a Kafka broker: "
            f"it sent {what}; {advice}",
            broker=self._peer.name,
        )

    def _stranger(self, head: bytes, ending: str = "") -> NotKafkaError:
        """Return the error of a peer whose first bytes are not Kafka's protocol."""
        if len(head) >= 3 and head[0] in (0x15, 0x16) and head[1] == 0x03 and self._peer.protocol in WITH_TLS:
            return self.not_kafka(f"a TLS record{ending}: this is a TLS port", self._set_tls)
        return self.not_kafka(_describe_stranger(head) + ending)

    @property
    def _set_tls(self) -> str:
        own = WITH_TLS[self._peer.protocol]
        other = WITH_SASL.get(own)
        return f'set security_protocol="{own}"' + (f', or "{other}" if it has SASL' if other else "")

    def _unreachable(self, reason: object, advice: str | None = None) -> BrokerConnectionError:
        extra = {"advice": advice} if advice else {}
        return BrokerConnectionError(self._peer.host, self._peer.port, reason, broker=self._peer.name, **extra)


def _describe_stranger(head: bytes) -> str:
    """Describe the first bytes of a peer that is not a Kafka broker."""
    if head.startswith(b"HTTP/"):
        line = head.split(b"\r\n", 1)[0].decode("ascii", "replace")
        return f"the response of an HTTP server ({line!r})"
    return f"bytes that are not Kafka's protocol ({head[:16]!r})"
