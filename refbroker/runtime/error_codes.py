"""The error codes of responses.

Source: https://kafka.apache.org/protocol.html#protocol_error_codes
"""

from __future__ import annotations

from kclient.errors import KafkaError, UnknownServerError

NONE = 0


def code_of(error: KafkaError | type[KafkaError]) -> int:
    """Return the error code of an exception, UNKNOWN_SERVER_ERROR for one without a code in the protocol."""
    return UnknownServerError.code if error.code is None else error.code
