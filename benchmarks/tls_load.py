"""New TLS connections to one broker, from a separate process: `tls_load.py open|keep ADDRESS COUNT`.

Each connection has a whole handshake and one ApiVersions request, so the broker has done all its work when the response
arrives. `open` opens and closes COUNT connections, eight at a time, and prints one JSON object. `keep` opens COUNT
connections, prints a line, and keeps them until its standard input ends. KCLIENT_BENCH_CA is the file of the authority
to trust; without it, connections are plaintext. Elsewhere: brokers and comparison (`tls`).
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import struct
import sys
import time
from concurrent.futures import ThreadPoolExecutor

CA = os.environ.get("KCLIENT_BENCH_CA", "")
AT_ONCE = 8
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""Header v1 without a client id, and no body."""


def connect(address: str, context: ssl.SSLContext | None) -> socket.socket:
    """Open a connection that has answered a request."""
    host, _, port = address.rpartition(":")
    sock = socket.create_connection((host, int(port)), timeout=60)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if context is not None:
        sock = context.wrap_socket(sock, server_hostname="localhost")
    sock.sendall(API_VERSIONS)
    with sock.makefile("rb") as received:
        (size,) = struct.unpack(">i", received.read(4))
        if len(received.read(size)) != size:
            raise ConnectionError("the broker closed the connection")
    return sock


def main() -> None:
    what, address, number = sys.argv[1:]
    count = int(number)
    context = ssl.create_default_context(cafile=CA) if CA else None
    with ThreadPoolExecutor(AT_ONCE) as threads:
        if what == "keep":
            sockets = list(threads.map(lambda _: connect(address, context), range(count)))
            print(len(sockets), flush=True)
            sys.stdin.read()
            return
        list(threads.map(lambda _: connect(address, context).close(), range(AT_ONCE * 4)))
        started, cpu = time.perf_counter(), time.process_time()
        list(threads.map(lambda _: connect(address, context).close(), range(count)))
        seconds = time.perf_counter() - started
        print(json.dumps({"rate": count / seconds, "cpu_ms": (time.process_time() - cpu) / count * 1e3}), flush=True)


if __name__ == "__main__":
    main()
