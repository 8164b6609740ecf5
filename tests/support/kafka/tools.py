"""Kafka's own command-line tools as the interop tests use them: one method per tool, its output as text.

Every call starts a Java process, which takes about a second.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.kafka.jars import run_tool
from tests.support.patience import PROCESS

TOOLS = "org.apache.kafka.tools"
LONG_MS = 600_000
"""A transaction timeout longer than any Java process of the tests runs."""
KEYED_INPUT = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
KEYED_OUTPUT = ("--formatter-property", "print.key=true", "--formatter-property", "key.separator=:")


def keyed_lines(count: int) -> str:
    """``k1:v1`` ... one a line, as the console producer reads and the console consumer writes them."""
    return "".join(f"k{number}:v{number}\n" for number in range(1, count + 1))


class JavaTools:
    """Kafka's tools, pointed at one broker.

    Args:
        bootstrap_servers: the broker under test.
        config: a file of client options, for a broker with security.

    Attributes:
        security: the options of a tool that name the file.
    """

    def __init__(self, bootstrap_servers: str, config: Path | None = None) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.security = () if config is None else ("--command-config", str(config))
        self._connection = ("--bootstrap-server", bootstrap_servers, *self.security)

    def run(self, tool: str, *arguments: str, input: str | bytes | None = None, timeout: float = PROCESS) -> str:
        """Run a tool that takes ``--bootstrap-server``; returns both of its output streams."""
        return run_tool(tool, *self._connection, *arguments, input=input, timeout=timeout).stdout

    def topics(self, *arguments: str) -> str:
        """kafka-topics.sh"""
        return self.run(f"{TOOLS}.TopicCommand", *arguments)

    def create_topic(self, topic: str, partitions: int = 1, **configs: str) -> None:
        """Create a topic of one replica; a failure fails the test."""
        options = [part for name, value in configs.items() for part in ("--config", f"{name}={value}")]
        output = self.topics(
            "--create", "--topic", topic, "--partitions", str(partitions), "--replication-factor", "1", *options
        )
        assert f"Created topic {topic}" in output, output

    def topic_configs(self, topic: str, *arguments: str) -> str:
        """kafka-configs.sh for one topic"""
        return self.run("kafka.admin.ConfigCommand", "--entity-type", "topics", "--entity-name", topic, *arguments)

    def produce(self, topic: str, input: str | bytes, *arguments: str) -> str:
        """kafka-console-producer.sh"""
        return self.run(f"{TOOLS}.ConsoleProducer", "--topic", topic, *arguments, input=input)

    def consume(self, topic: str, count: int, *arguments: str, offset: str = "earliest") -> str:
        """kafka-console-consumer.sh on partition 0, without a group; ends after `count` records"""
        return self.run(
            f"{TOOLS}.consumer.ConsoleConsumer", "--topic", topic, "--partition", "0", "--offset", offset,
            "--max-messages", str(count), "--timeout-ms", "20000", *arguments,
        )  # fmt: skip

    def formatted(self, topic: str, formatter: str) -> list[Any]:
        """kafka-console-consumer.sh, all partitions from the start, with a formatter that prints objects of JSON

        It ends when nothing has come for ten seconds, in which at first it has to join a group.
        """
        printed = self.run(
            f"{TOOLS}.consumer.ConsoleConsumer", "--topic", topic, "--from-beginning",
            "--formatter", f"{TOOLS}.consumer.{formatter}", "--timeout-ms", "10000",
        )  # fmt: skip
        return list(_objects(printed[printed.index("{") :]))

    def offsets(self, topic: str, time: int) -> str:
        """kafka-get-offsets.sh: -1 latest, -2 earliest, -3 of the largest timestamp, else at a point in time"""
        return self.run(f"{TOOLS}.GetOffsetShell", "--topic", topic, "--time", str(time))


def _objects(text: str) -> Iterator[Any]:
    """Return the JSON objects of a text that contains them without separators."""
    decoder = json.JSONDecoder()
    while text.startswith("{"):
        found, end = decoder.raw_decode(text)
        text = text[end:].lstrip()
        yield found
