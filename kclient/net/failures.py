"""Errors of requests: each request gets a copy that names its API and broker."""

from __future__ import annotations

from kclient.errors import DisconnectedError, KafkaError
from kclient.net.manager import Request


def api_name(request: Request) -> str:
    """Return Kafka's name of the request's API."""
    return request.request_type.message_name.removesuffix("Request")


def error_for_request(error: KafkaError, request: Request, broker: str | None = None) -> KafkaError:
    """Return a copy of an error that names the request; existing context is kept."""
    copied = type(error).__new__(type(error), *error.args)
    copied.args = error.args
    copied.__dict__.update(error.__dict__)
    copied.api = error.api or api_name(request)
    copied.broker = error.broker or broker
    return copied


def unknown_broker(node: int) -> KafkaError:
    """Return the error of a request to a broker that the metadata does not name."""
    return DisconnectedError(f"broker {node} is not in the metadata; it may have left the cluster", broker=node)
