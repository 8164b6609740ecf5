"""`refbroker run`: runs one broker until it receives a signal.

When the broker serves, it prints `refbroker ready on HOST:PORT`; for each further listener `refbroker listener NAME on
HOST:PORT`; with `--metrics-port` a line `refbroker metrics on http://HOST:PORT/metrics`; with `--control-port` another,
`refbroker control on http://HOST:PORT`. SIGTERM and SIGINT stop it cleanly; after SIGKILL it recovers everything. When
a disk that the broker depends on fails, it reports that and exits immediately, with exit status 1.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

FAILED = 1
"""The exit status of a broker whose disk has failed."""


def add_parser(commands: Any) -> None:
    """Declare the command's options."""
    run = commands.add_parser("run", help="run a broker", description="Run a broker until SIGTERM or SIGINT.")
    run.add_argument("--port", type=int, help="port to listen on; 0 picks a free one (default: 9092)")
    run.add_argument("--host", help="address to listen on (default: 127.0.0.1)")
    run.add_argument("--data-dir", metavar="DIR", help="directory of the data (sets log.dirs)")
    run.add_argument("--config", metavar="FILE", type=Path, help="settings in the style of server.properties")
    run.add_argument(
        "--set",
        metavar="NAME=VALUE",
        dest="settings",
        action="append",
        default=[],
        help="a setting, by Kafka's name; may be repeated",
    )
    run.add_argument(
        "--tls",
        metavar="DIR",
        nargs="?",
        const="",
        help="serve TLS with certificates for tests, made in this directory at the first start (default: the data "
        "directory's name with -tls); clients use its client.properties",
    )
    for prefix, what in (("metrics", "serve metrics for Prometheus"), ("control", "let tests control the broker")):
        run.add_argument(f"--{prefix}-port", metavar="PORT", type=int, help=f"{what} on this port; 0 picks a free one")
        run.add_argument(f"--{prefix}-host", metavar="HOST", help="address to serve that on (default: 127.0.0.1)")
    run.add_argument(
        "--simulated-disk", action="store_true", help="with --control-port: a disk that can lose data, fail and fill up"
    )
    run.add_argument(
        "--log-level",
        default="warning",
        choices=("debug", "info", "warning", "error"),
        help="level of the log on standard error (default: warning)",
    )
    run.set_defaults(do=run_broker)


def run_broker(options: argparse.Namespace) -> int:
    """Run the broker; return the exit status.

    Raises:
        ConfigError: options or settings contradict each other or are invalid.
        OSError: a port is in use or cannot be bound.
        KafkaStorageError, InconsistentClusterIdError: the data cannot be used.
    """
    import logging

    from kclient.errors import ConfigError
    from refbroker.runtime.log_lines import LineFormatter
    from refbroker.runtime.threads import run_loop

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=options.log_level.upper(), handlers=[handler])
    settings = settings_from(options)
    if options.control_port is not None:
        return _serve_controlled(settings, options)
    if options.simulated_disk or options.control_host is not None:
        raise ConfigError("--simulated-disk and --control-host require --control-port")
    return run_loop(_serve(settings, options))


def _serve_controlled(settings: dict[str, str], options: argparse.Namespace) -> int:
    import signal
    import threading

    from refbroker.settings.listeners import LOOPBACK
    from refbroker.testing.control.process import Address, controlled_broker

    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: stopped.set())
    metrics = None
    if options.metrics_port is not None:
        metrics = Address(options.metrics_host or LOOPBACK, options.metrics_port)
    control = Address(options.control_host or LOOPBACK, options.control_port)
    with controlled_broker(settings, control, metrics=metrics, simulated_disk=options.simulated_disk) as lines:
        print("\n".join(lines), flush=True)
        stopped.wait()
    return 0


def settings_from(options: argparse.Namespace) -> dict[str, str]:
    """Return the settings from the file and the command line; the command line takes precedence.

    Raises:
        ConfigError: one is not NAME=VALUE, or none names a directory for the data.
    """
    from kclient.errors import ConfigError
    from refbroker.config import read_properties
    from refbroker.settings.listeners import LOOPBACK, SSL
    from refbroker.testing.certificates import write_certificates

    settings: dict[str, str] = {}
    if options.config is not None:
        settings.update(read_properties(options.config))
    if options.tls is not None and "listeners" not in settings:
        settings["listeners"] = f"{SSL}://{LOOPBACK}:9092"
    if options.port is not None or options.host is not None:
        _listen_elsewhere(settings, options.host, options.port)
    for text in options.settings:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--set takes NAME=VALUE, not {text!r}")
        settings[name.strip()] = value.strip()
    if options.data_dir is not None:
        settings["log.dirs"] = options.data_dir
    if not settings.get("log.dirs") and not settings.get("log.dir"):
        raise ConfigError("no data directory is given; pass --data-dir, or --config with log.dirs")
    if options.tls is not None:
        settings = {**write_certificates(_certificate_directory(options.tls, settings)), **settings}
    return settings


def _certificate_directory(given: str, settings: dict[str, str]) -> Path:
    """Return the directory of the certificates; by default beside the data, since Kafka takes any directory among the
    data for a log.
    """
    from refbroker.config import BrokerConfig

    data = BrokerConfig(settings).data_directories[0]
    return Path(given) if given else data.with_name(f"{data.name}-tls")


def _listen_elsewhere(settings: dict[str, str], host: str | None, port: int | None) -> None:
    """Replace the host or port of the first listener for clients; the others stay as the file has them."""
    from refbroker.settings.inter_broker import PLAINTEXT, controller_names
    from refbroker.settings.listeners import ALL_ADDRESSES, LOOPBACK, Listener, parse_listener
    from refbroker.settings.values import parse_list

    controllers = controller_names(settings)
    listeners = [parse_listener(text) for text in parse_list(settings.get("listeners", ""))]
    place = next((number for number, found in enumerate(listeners) if found.name not in controllers), len(listeners))
    old = listeners[place] if place < len(listeners) else Listener(PLAINTEXT, LOOPBACK, 9092)
    new = old._replace(host=old.host if host is None else host, port=old.port if port is None else port)
    listeners[place : place + 1] = [new]
    settings["listeners"] = ",".join(map(str, listeners))
    # The advertised address belonged to the replaced one; port 0 stands for the port that is bound.
    advertised = [parse_listener(text) for text in parse_list(settings.pop("advertised.listeners", ""))]
    if [found.name for found in advertised] != [new.name]:
        own = new._replace(host=LOOPBACK if new.host in ALL_ADDRESSES else new.host)
        advertised = [own if found.name == new.name else found for found in advertised]
        settings |= {"advertised.listeners": ",".join(map(str, advertised))} if advertised else {}


async def _serve(settings: dict[str, str], options: argparse.Namespace) -> int:
    import asyncio
    import signal
    from contextlib import AsyncExitStack

    from refbroker.broker import Broker
    from refbroker.config import BrokerConfig
    from refbroker.settings.listeners import LOOPBACK

    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(await Broker.start(BrokerConfig(settings)))
        lines = broker.ready_lines()
        if options.metrics_port is not None:
            from refbroker.server.metrics.page import MetricsPage

            page = MetricsPage(broker.collect_metrics, options.metrics_host or LOOPBACK, options.metrics_port)
            await stack.enter_async_context(page)
            lines.append(f"refbroker metrics on {page.url}")
        print("\n".join(lines), flush=True)
        failed = broker.parts.failed
        ends: list[asyncio.Future[Any]] = [asyncio.ensure_future(stopped.wait()), failed]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if failed.done():
            print(f"refbroker: {failed.result()}", file=sys.stderr, flush=True)
            # As Kafka halts: a disk that does not respond could block this process indefinitely.
            os._exit(FAILED)
    return 0
