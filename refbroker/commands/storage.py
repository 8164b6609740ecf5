"""`refbroker format`, `info` and `random-uuid`: what kafka-storage does with data directories, with the same
options.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from refbroker.config import BrokerConfig
    from refbroker.settings.listeners import Listener


def add_parser(commands: Any) -> None:
    """Declare the commands' options."""
    format_ = commands.add_parser(
        "format",
        help="format data directories",
        description="Format data directories, for this broker or Apache Kafka.",
    )
    _add_place(format_)
    format_.add_argument("--node-id", type=int, help="the broker's id (default: node.id, else 1)")
    format_.add_argument(
        "-t",
        "--cluster-id",
        metavar="ID",
        help="the cluster id (default: the existing one, else a new one)",
    )
    format_.add_argument(
        "-r", "--release-version", metavar="VERSION", help="the release whose feature levels to start with"
    )
    format_.add_argument(
        "-f",
        "--feature",
        metavar="NAME=LEVEL",
        dest="features",
        action="append",
        default=[],
        help="the level of a feature",
    )
    format_.add_argument(
        "-g", "--ignore-formatted", action="store_true", help="skip directories that are already formatted"
    )
    format_.add_argument(
        "-S",
        "--add-scram",
        metavar="MECHANISM=[name=USER,password=PASSWORD]",
        dest="credentials",
        action="append",
        default=[],
        help="a user for SCRAM; may be repeated",
    )
    quorum = format_.add_mutually_exclusive_group()
    quorum.add_argument(
        "-s",
        "--standalone",
        action="store_true",
        help="record in the metadata log that this node is the only controller",
    )
    quorum.add_argument(
        "-N",
        "--no-initial-controllers",
        action="store_true",
        help="let the metadata log name the controllers later",
    )
    format_.set_defaults(do=format_storage)

    info = commands.add_parser(
        "info",
        help="show which cluster and node data directories belong to",
        description="Show which cluster and node data directories belong to.",
    )
    _add_place(info)
    info.set_defaults(do=show_info)

    random_uuid = commands.add_parser(
        "random-uuid", help="print a new id, for a cluster", description="Print a new id, for a cluster."
    )
    random_uuid.set_defaults(do=print_uuid)


def _add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data-dir", metavar="DIR", help="the data directory, or several separated by commas")
    parser.add_argument("-c", "--config", metavar="FILE", type=Path, help="settings in the style of server.properties")


def _config(options: argparse.Namespace, node_id: int | None = None) -> BrokerConfig:
    import logging

    from kclient.errors import ConfigError
    from refbroker.config import BrokerConfig, read_properties

    # How a setting affects a running broker does not matter here.
    logging.basicConfig(level=logging.ERROR)
    settings = {} if options.config is None else read_properties(options.config)
    if options.data_dir is not None:
        settings["log.dirs"] = options.data_dir
    if not settings.get("log.dirs") and not settings.get("log.dir"):
        raise ConfigError("no data directory is given; pass --data-dir, or --config with log.dirs")
    if node_id is not None:
        settings["node.id"] = str(node_id)
    return BrokerConfig(settings)


def format_storage(options: argparse.Namespace) -> int:
    """Format data directories; return the exit status."""
    import random
    import time

    from refbroker.controller.scram import parse_credential
    from refbroker.directories.formatting import FormatPlan, cluster_of, directories_of, format_directories, plan_levels
    from refbroker.log import Files
    from refbroker.log.checkpoints import encode_uuid, random_uuid

    rng, files = random.SystemRandom(), Files()
    config = _config(options, options.node_id)
    directories, metadata_directory = directories_of(config)
    plan = FormatPlan(
        cluster_id=options.cluster_id or cluster_of(directories, files) or encode_uuid(random_uuid(rng)),
        node_id=config.node_id,
        directories=directories,
        metadata_directory=metadata_directory,
        levels=plan_levels(
            _levels(options.features), options.release_version, dynamic_quorum=_is_dynamic(options, config)
        ),
        credentials=tuple(map(parse_credential, options.credentials)),
        controller=_controller(config) if options.standalone else None,
    )
    now_ms = time.time_ns() // 1_000_000
    for line in format_directories(
        plan, ignore_formatted=options.ignore_formatted, files=files, rng=rng, now_ms=now_ms
    ):
        print(line)
    return 0


def _levels(features: list[str]) -> dict[str, int]:
    from kclient.errors import ConfigError

    levels = {}
    for text in features:
        name, equals, level = text.partition("=")
        if not equals or not level.strip().isdecimal():
            raise ConfigError(f"--feature takes NAME=LEVEL, not {text!r}")
        levels[name.strip()] = int(level)
    return levels


def _is_dynamic(options: argparse.Namespace, config: BrokerConfig) -> bool:
    """Return whether the voters are in the metadata log; Kafka, too, requires an option when the settings do not name
    them.
    """
    from kclient.errors import ConfigError

    chosen = bool(options.standalone or options.no_initial_controllers)
    if config.text("controller.quorum.voters"):
        if chosen:
            raise ConfigError(
                "You cannot specify controller.quorum.voters and format the node with --standalone or "
                "--no-initial-controllers. If you want to use dynamic quorum, please remove controller.quorum.voters "
                "and specify controller.quorum.bootstrap.servers instead."
            )
    elif not chosen and "controller" in (config.text("process.roles") or ""):
        raise ConfigError(
            "Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
            "--standalone, or --no-initial-controllers."
        )
    return chosen


def _controller(config: BrokerConfig) -> Listener:
    from kclient.errors import ConfigError
    from refbroker.settings.inter_broker import controller_names
    from refbroker.settings.listeners import parse_listener
    from refbroker.settings.values import parse_list

    names = controller_names(config.static) or ["CONTROLLER"]
    given = [
        parse_listener(text)
        for setting in ("advertised.listeners", "listeners")
        for text in parse_list(config.static.get(setting, ""))
    ]
    for listener in given:
        if listener.name == names[0]:
            return listener._replace(host=listener.host or "localhost")
    raise ConfigError(f"--standalone needs to know where the controller listens: {names[0]} among the listeners")


def show_info(options: argparse.Namespace) -> int:
    """Show the identity of data directories; return the exit status: 1 when one of them is invalid."""
    from refbroker.directories.formatting import describe_directories, directories_of
    from refbroker.log import Files

    directories, _ = directories_of(_config(options))
    report = describe_directories(directories, Files())
    for line in report.lines:
        print(line)
    return 1 if report.has_problems else 0


def print_uuid(options: argparse.Namespace) -> int:
    """Print a new id; return the exit status."""
    import random

    from refbroker.log.checkpoints import encode_uuid, random_uuid

    print(encode_uuid(random_uuid(random.SystemRandom())))
    return 0
