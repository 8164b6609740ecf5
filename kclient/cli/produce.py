"""`kclient produce`: lines of a file or of standard input become records.

The command does not wait for single records. A record that is not delivered does not stop it; an invalid line does,
because the following lines may be invalid too. Both are reported with the line number and the count of produced
records; the exit code is 1.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from kclient.cli import output
from kclient.cli.connection import Properties, Servers, Settings, options
from kclient.cli.failures import CommandError
from kclient.cli.lines import Line, LineError, json_lines, plain_lines
from kclient.cli.text import unescaped
from kclient.config import ProducerConfig
from kclient.errors import DeliveryError, KafkaError, UnknownTopicOrPartitionError
from kclient.producer import Producer, RecordFuture
from kclient.types import Headers

PROGRESS_EVERY = 1000
CHECK_EVERY = 20_000
"""The number of waiting records after which finished ones are removed."""
ERRORS_SHOWN = 5


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", exists=True, dir_okay=False, help="Standard input by default.", show_default=False
        ),
    ] = None,
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-K", metavar="TEXT", help="The separator of key and value in a line."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header of every record; repeatable."),
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, metavar="N", help="The partition of every record.")
    ] = None,
    compression: Annotated[
        str | None, typer.Option("--compression", "-z", metavar="CODEC", help="gzip, snappy, lz4 or zstd.")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Each line is a JSON object, as `kclient consume --json` writes it.")
    ] = False,
    ignore_partition: Annotated[
        bool,
        typer.Option("--ignore-partition", help="With --json: choose the partition by the key, not by the JSON."),
    ] = False,
) -> None:
    """Produce a record for each line, and print how many were produced."""
    chosen: dict[str, Any] = options(ProducerConfig, servers, properties, settings)
    if compression:
        chosen["compression.type"] = compression
    headers = tuple(_header(text) for text in header or ())
    separator = unescaped(key_separator, "--key-separator").encode() if key_separator else None
    produced = Produced(topic)
    with (
        open(file, "rb") if file else _standard_input() as source,
        Producer.from_properties(chosen) as producer,
        output.progress(source) as progress,
    ):
        if source.isatty():
            output.remark("a record per line; Ctrl-D ends")
        task = progress.add_task("produce", total=None)
        try:
            for line in json_lines(source) if json else plain_lines(source, separator):
                number = partition if partition is not None else None if ignore_partition else line.partition
                _send(producer, topic, line, headers, number, produced)
                if produced.sent % PROGRESS_EVERY == 0:
                    progress.update(task, completed=produced.sent)
        except LineError as error:
            produced.stopped_by = error
        # Its failures are those of the futures.
        with suppress(DeliveryError):
            producer.flush()
    produced.report()


class Produced:
    """The number of produced records, and the first errors.

    Attributes:
        sent: the number of records sent so far.
        stopped_by: the invalid line after which nothing was sent.
    """

    def __init__(self, topic: str) -> None:
        self.sent = 0
        self.stopped_by: LineError | None = None
        self._topic = topic
        self._failed = 0
        self._errors: list[LineError] = []
        self._pending: list[tuple[int, RecordFuture]] = []
        self._check_at = CHECK_EVERY

    def add(self, line: int, future: RecordFuture) -> None:
        """Count a record that was sent."""
        self.sent += 1
        self._pending.append((line, future))
        if len(self._pending) >= self._check_at:
            self._check()
            # A record that waits long is checked a few times only.
            self._check_at = max(CHECK_EVERY, 2 * len(self._pending))

    def _check(self) -> None:
        """Drop the records that are delivered or failed; a callback for each costs three times as much."""
        pending = []
        for line, future in self._pending:
            if not future.done():
                pending.append((line, future))
            elif (error := future.exception()) is not None:
                self._failed += 1
                if self._failed <= ERRORS_SHOWN:
                    self._errors.append(LineError(line, error))
        self._pending = pending

    def report(self) -> None:
        """Print the number of produced records, once all are delivered or failed.

        Raises:
            CommandError: some were not.
        """
        self._check()
        count = f"{output.counted(self.sent - self._failed)} produced to {self._topic}"
        if not self._failed and self.stopped_by is None:
            with output.pipe():
                sys.stdout.write(f"{count}\n")
            return
        lines = [str(error) for error in sorted(self._errors, key=lambda error: error.number)]
        if self._failed > len(lines):
            lines.append(f"... and {self._failed - len(lines):,} more that were not produced")
        if self.stopped_by is not None:
            lines.append(f"{self.stopped_by}; this line and the following ones were not sent")
        raise CommandError("\n".join([*lines, count]))


def _send(
    producer: Producer, topic: str, line: Line, headers: Headers, partition: int | None, produced: Produced
) -> None:
    try:
        future = producer.send(
            topic,
            line.value,
            key=line.key,
            headers=(*headers, *line.headers),
            partition=partition,
            timestamp=line.timestamp,
        )
    except (KafkaError, TypeError, ValueError) as error:
        hint = ""
        if isinstance(error, UnknownTopicOrPartitionError) and partition is not None and partition == line.partition:
            hint = " (--ignore-partition lets the partitioner choose)"
        raise LineError(line.number, f"{error}{hint}") from error
    produced.add(line.number, future)


def _standard_input() -> BinaryIO:
    # A second file object for the same descriptor: closing it does not close the process's own.
    return open(sys.stdin.fileno(), "rb", closefd=False)


def _header(text: str) -> tuple[str, bytes]:
    name, separator, value = text.partition("=")
    if not separator:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--header")
    return name, value.encode()
