"""The choice between the compiled and the pure TLS streams.

The pure one is used with KCLIENT_TLS=python, without compiled modules, and with a Python whose OpenSSL cannot be found.
Elsewhere: the choice between the other twins (`kclient._twins`).
"""

from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING

from kclient._twins import load
from kclient.security.tls_stream import TlsStream

__all__ = ["TlsStream", "tls_implementation", "tls_stream"]

if TYPE_CHECKING or os.environ.get("KCLIENT_TLS", "") == "python":
    _Fast = TlsStream
else:
    (_Fast,) = load(["TlsStream"], compiled="kclient.security._tls_stream", pure=("kclient.security.tls_stream",))


def tls_stream(context: ssl.SSLContext, *, server_side: bool = False, server_hostname: str | None = None) -> TlsStream:
    """Return the TLS of a new connection; parameters as for TlsStream."""
    try:
        return _Fast(context, server_side=server_side, server_hostname=server_hostname)
    except NotImplementedError:
        return TlsStream(context, server_side=server_side, server_hostname=server_hostname)


def tls_implementation() -> str:
    """Return what encrypts: "compiled" or "python"."""
    stream = tls_stream(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), server_side=True)
    return "python" if type(stream) is TlsStream else "compiled"
