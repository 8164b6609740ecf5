"""`refbroker run --control-port`: a broker controlled by a test in another process or language.

The broker runs in a thread, as in `RefBroker`, so that it can be stopped, crashed and started again while the process
and its control port stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from refbroker.broker import Broker
from refbroker.server.http import HttpServer
from refbroker.server.metrics.page import PATH
from refbroker.testing import RefBroker, SimulatedDisk
from refbroker.testing.control.server import ControlServer, metrics_page


class Address(NamedTuple):
    """An address to listen on; port 0 picks a free one."""

    host: str
    port: int


@contextmanager
def controlled_broker(
    settings: Mapping[str, str], control: Address, *, metrics: Address | None = None, simulated_disk: bool = False
) -> Iterator[list[str]]:
    """Run a broker with a control port within a `with` block; yield the lines that say what listens where.

    Parameters:
        settings: the broker's settings, including its data directory.
        control: the address of the control port.
        metrics: the address of the Prometheus page, if any; the control port has it as well.
        simulated_disk: whether to use a `SimulatedDisk`.

    Raises:
        OSError: a port is not available.
        KafkaError: the broker cannot start.
    """
    directories = settings.get("log.dirs") or settings["log.dir"]
    disk = SimulatedDisk(durable=True) if simulated_disk else None
    with ExitStack() as stack:
        kafka = stack.enter_context(
            RefBroker(data_dir=Path(directories.split(",")[0].strip()), settings=settings, disk=disk)
        )
        lines = kafka.call(Broker.ready_lines)
        if metrics is not None:
            page = HttpServer(*metrics, {("GET", PATH): metrics_page(kafka)})
            page.start()
            stack.callback(page.close)
            lines.append(f"refbroker metrics on {page.url}{PATH}")
        server = stack.enter_context(ControlServer(kafka, *control))
        lines.append(f"refbroker control on {server.url}")
        yield lines
