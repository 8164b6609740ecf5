"""Clients of others at a broker with TLS and logins, each a program that writes a record and reads it in a group.

The programs of Python are in `secured_programs`, those of Java, Go and JavaScript in `java/`, `go/` and `javascript/`;
the last two are built when a test needs them. Elsewhere: Kafka's tools (`test_security`, `test_java_tools`).
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.kafka.jars import TOOL_FLAGS, classpath, unavailable_reason
from tests.support.patience import DOWNLOAD, PROCESS

HERE = Path(__file__).parent
_GO_AUTHORITY = "certificate signed by unknown authority"
READ = "read 100000"
"""What a program prints that has written and read its record, with its length; otherwise it prints an error."""


class Access(NamedTuple):
    """What a client connects with. Without a mechanism it has a certificate.

    Attributes:
        authority, certificate, key: PEM texts.
    """

    server: str
    authority: str
    topic: str
    group: str
    mechanism: str = ""
    user: str = ""
    password: str = ""
    certificate: str = ""
    key: str = ""


class Errors(NamedTuple):
    """What a client says when it is refused, or refuses the broker.

    Attributes:
        password: the broker refuses the password.
        authority: the client does not know who signed the broker's certificate.
        topic: the user may not write to the topic.
        no_answer: the answer about the password was lost, which happens to some clients.
    """

    password: str
    authority: str
    topic: str
    no_answer: str | None = None


class Client(NamedTuple):
    """A client: `run` returns what its program prints."""

    run: Callable[[Access], str]
    errors: Errors


def _python(module: str, access: Access) -> str:
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    return _output([sys.executable, "-m", "tests.interop.secured_programs", module], access)


def _java(access: Access) -> str:
    if reason := unavailable_reason():
        pytest.skip(reason)
    return _output(["java", *TOOL_FLAGS, "-cp", classpath(), str(HERE / "java" / "SecuredClient.java")], access)


def _go(name: str, access: Access) -> str:
    return _output([str(_go_programs() / name)], access)


def _kafkajs(access: Access) -> str:
    return _output(["node", str(HERE / "javascript" / "secured.js")], access, NODE_PATH=str(_node_modules()))


def _output(command: list[str], access: Access, **environment: str) -> str:
    done = subprocess.run(
        [*command, json.dumps(access._asdict())],
        cwd=HERE.parents[1],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PROCESS,
        check=False,
    )
    return (done.stdout + done.stderr).strip()


@cache
def _go_programs() -> Path:
    """Build the programs of Go; return their folder."""
    _need("go")
    folder = _cache("go")
    _build(["go", "build", "-o", f"{folder}/", "./..."], HERE / "go")
    return folder


@cache
def _node_modules() -> Path:
    """Install KafkaJS; return the folder of packages."""
    _need("node")
    _need("npm")
    folder = _cache("javascript")
    shutil.copy(HERE / "javascript" / "package.json", folder)
    _build(["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"], folder)
    return folder / "node_modules"


def _cache(name: str) -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "kclient-interop" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _need(tool: str) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"this client needs {tool}")


def _build(command: list[str], directory: Path) -> None:
    done = subprocess.run(
        command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DOWNLOAD, check=False
    )
    if done.returncode:
        pytest.skip(f"{command[0]} could not fetch and build a client: {(done.stdout + done.stderr).strip()[-400:]}")


CLIENTS = {
    "confluent-kafka": Client(
        partial(_python, "confluent_kafka"),
        Errors("SASL authentication error", "broker certificate could not be verified", "TOPIC_AUTHORIZATION_FAILED"),
    ),
    "kafka-python": Client(
        partial(_python, "kafka"),
        # It drops an answer that arrives together with the end of the connection (KafkaTCPTransport._read_from_sock).
        Errors(
            "SaslAuthenticationFailedError",
            "CERTIFICATE_VERIFY_FAILED",
            "TopicAuthorizationFailedError",
            "socket disconnected",
        ),
    ),
    "aiokafka": Client(
        partial(_python, "aiokafka"),
        Errors("Authentication failed", "CERTIFICATE_VERIFY_FAILED", "TopicAuthorizationFailedError"),
    ),
    "Java": Client(
        _java, Errors("SaslAuthenticationException", "PKIX path building failed", "TopicAuthorizationException")
    ),
}
BUILT = {
    "franz-go": Client(
        partial(_go, "franz"), Errors("SASL_AUTHENTICATION_FAILED", _GO_AUTHORITY, "TOPIC_AUTHORIZATION_FAILED")
    ),
    "sarama": Client(partial(_go, "sarama"), Errors("SASL Authentication failed", _GO_AUTHORITY, "not authorized")),
    # kafka-go requests all topics; the response contains only those that the user may describe.
    "kafka-go": Client(partial(_go, "kafkago"), Errors("SASL Authentication Failed", _GO_AUTHORITY, "Unknown Topic")),
    "KafkaJS": Client(_kafkajs, Errors("KafkaJSSASLAuthenticationError", "certificate", "Not authorized")),
}
"""Clients that have to be built, which takes minutes at first."""
