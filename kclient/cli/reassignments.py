"""`kclient reassignments generate|execute|verify|cancel|list`: moves of partitions to other brokers and directories.

The functions of Kafka's kafka-reassign-partitions.sh, whose plans these commands read and write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from kclient.admin import Admin, TopicPartitionReplica
from kclient.cli import output
from kclient.cli.app import App
from kclient.cli.connection import Json, Properties, Servers, Settings, admin
from kclient.cli.failures import CommandError
from kclient.cli.reassignment_plans import Plan, plan_document, read_plan, read_topics
from kclient.cli.reassignment_progress import (
    LogDirProgress,
    PartitionProgress,
    Progress,
    current_log_dirs,
    current_replicas,
    log_dir_progress,
    partition_progress,
)
from kclient.cli.reassignment_throttles import limit_log_dirs, limit_replication, planned_moves, remove_throttles
from kclient.cli.replica_placement import place
from kclient.cli.results import succeeded
from kclient.cli.timeouts import timeout_seconds
from kclient.errors import (
    BrokerNotAvailableError,
    IllegalStateError,
    ReplicaNotAvailableError,
    UnknownTopicOrPartitionError,
)
from kclient.net.runtime import current, sleep
from kclient.types import TopicPartition

app = App(help="Move partitions to other brokers and directories; plans have the format of Kafka's own tool.")

PlanFile = Annotated[
    Path, typer.Argument(metavar="PLAN", exists=True, dir_okay=False, help="A plan, as JSON.", show_default=False)
]
Rollback = Annotated[
    Path | None,
    typer.Option(
        "--rollback", metavar="FILE", dir_okay=False, help="Write the current assignment, which undoes the plan."
    ),
]
KeepThrottles = Annotated[bool, typer.Option("--keep-throttles", help="Do not remove throttles.")]

_PAUSE_SECONDS = 0.1


@app.command()
def generate(
    brokers: Annotated[
        str, typer.Option("--brokers", metavar="ID,...", help="The brokers that shall have the replicas.")
    ],
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC", help="The topics to move.", show_default=False)
    ] = None,
    topics_file: Annotated[
        Path | None,
        typer.Option(
            "--topics-file",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Topics, in the JSON of Kafka's own tool.",
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option("--replication-factor", metavar="N", min=1, help="A new number of replicas. Default: as it is."),
    ] = None,
    ignore_racks: Annotated[bool, typer.Option("--ignore-racks", help="Do not distribute over racks.")] = False,
    rollback: Rollback = None,
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
) -> None:
    """Print a plan that distributes topics evenly over brokers and racks."""
    names = [*(topics or ()), *(read_topics(topics_file) if topics_file else ())]
    if not names:
        raise typer.BadParameter("name topics, or a file with topics: --topics-file")
    wanted = _broker_ids(brokers)
    with admin(servers, properties, settings) as client:
        replicas = {
            TopicPartition(info.topic, info.partition): info.replicas
            for topic in client.describe_topics(dict.fromkeys(names)).values()
            for info in topic.partitions
        }
        nodes = client.describe_cluster().brokers
        _check_brokers(wanted, nodes)
        racks = {broker: None if ignore_racks else nodes[broker].rack for broker in wanted}
        if None in racks.values() and any(racks.values()):
            without = ", ".join(str(broker) for broker, rack in sorted(racks.items()) if rack is None)
            raise CommandError(f"some brokers have no rack: {without}; --ignore-racks distributes without racks")
        placed = place(replicas, racks, replication_factor)
        if rollback:
            _write_current(client, rollback, replicas)
    output.as_json(plan_document(placed))


@app.command()
def execute(
    plan: PlanFile,
    throttle: Annotated[
        int | None,
        typer.Option(
            "--throttle", metavar="BYTES", min=1, help="Limit the replication of each broker to bytes per second."
        ),
    ] = None,
    log_dirs_throttle: Annotated[
        int | None,
        typer.Option(
            "--log-dirs-throttle", metavar="BYTES", min=1, help="Limit moves between directories to bytes per second."
        ),
    ] = None,
    additional: Annotated[
        bool, typer.Option("--additional", help="Also while other reassignments are in progress.")
    ] = False,
    keep_replication_factor: Annotated[
        bool, typer.Option("--keep-replication-factor", help="Refuse to change the number of replicas.")
    ] = False,
    rollback: Rollback = None,
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
) -> None:
    """Start the moves of a plan; without --rollback the current assignment is printed on standard error."""
    wanted = read_plan(plan)
    with admin(servers, properties, settings) as client:
        ongoing = client.list_partition_reassignments()
        if ongoing and not additional:
            raise IllegalStateError(
                f"{len(ongoing)} reassignments are in progress; wait for them, or add to them or change their throttle "
                "with --additional"
            )
        alive = client.describe_cluster().brokers
        _check_brokers(wanted.brokers, alive)
        before = current_replicas(client, wanted)
        if missing := [str(key) for key in wanted.replicas if key not in before]:
            raise UnknownTopicOrPartitionError(f"the cluster does not have {', '.join(missing)}")
        _write_current(client, rollback, before)
        if throttle is not None:
            limit_replication(client, planned_moves(ongoing, wanted.replicas, before), throttle, alive)
        if log_dirs_throttle is not None:
            limit_log_dirs(client, {key.broker_id for key in wanted.log_dirs}, log_dirs_throttle)
        if throttle is not None or log_dirs_throttle is not None:
            output.notice("run `kclient reassignments verify` until all moves are completed, to remove the throttles")
        client.alter_partition_reassignments(
            wanted.replicas, allow_replication_factor_change=not keep_replication_factor
        )
        _start_log_dir_moves(client, wanted.log_dirs)
    rows = (
        (*key, output.joined(before[key]), output.joined(replicas)) for key, replicas in sorted(wanted.replicas.items())
    )
    output.table(["started", "partition", "from", "to"], rows, numbers=["partition"])


@app.command()
def verify(
    plan: PlanFile,
    keep_throttles: KeepThrottles = False,
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    json: Json = False,
) -> None:
    """Show how far a plan is; fail until it is completed. When nothing moves, remove all throttles."""
    wanted = read_plan(plan)
    with admin(servers, properties, settings) as client:
        ongoing = client.list_partition_reassignments()
        partitions = partition_progress(wanted, ongoing, current_replicas(client, wanted))
        log_dirs = log_dir_progress(wanted.log_dirs, current_log_dirs(client, wanted.log_dirs))
        moving = any(each.state is Progress.IN_PROGRESS for each in log_dirs)
        if not ongoing and not moving and not keep_throttles:
            _remove_throttles(client, wanted, {each.topic for each in partitions if each.state is not Progress.MISSING})
    if json:
        output.as_json({"partitions": partitions, "log_dirs": log_dirs})
    else:
        _show_progress(partitions, log_dirs)
    states = [*(each.state for each in partitions), *(each.state for each in log_dirs)]
    if left := len(states) - states.count(Progress.COMPLETED):
        raise CommandError(f"{left} of {len(states)} moves are not completed")


@app.command()
def cancel(
    plan: PlanFile,
    keep_throttles: KeepThrottles = False,
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
) -> None:
    """Cancel those moves of a plan that are in progress, and remove all throttles."""
    wanted = read_plan(plan)
    with admin(servers, properties, settings) as client:
        ongoing = client.list_partition_reassignments(wanted.replicas)
        client.alter_partition_reassignments(dict.fromkeys(ongoing))
        back = {
            key: info.current_log_dir
            for key, info in current_log_dirs(client, wanted.log_dirs).items()
            if info.future_log_dir is not None and info.current_log_dir is not None
        }
        _start_log_dir_moves(client, back)
        if not keep_throttles:
            _remove_throttles(client, wanted, {key.topic for key in current_replicas(client, wanted)})
    rows: list[tuple[object, ...]] = [(*key, None) for key in ongoing]
    rows += [tuple(key) for key in back]
    output.table(["cancelled", "partition", "directory of broker"], rows, numbers=["partition"])


@app.command("list")
def list_reassignments(
    servers: Servers = None, properties: Properties = None, settings: Settings = None, json: Json = False
) -> None:
    """List the reassignments in progress."""
    with admin(servers, properties, settings) as client:
        found = client.list_partition_reassignments()
    if json:
        output.as_json([{**key._asdict(), **msgspec.structs.asdict(each)} for key, each in found.items()])
        return
    rows = (
        (*key, *map(output.joined, (each.replicas, each.adding_replicas, each.removing_replicas)))
        for key, each in found.items()
    )
    output.table(["topic", "partition", "replicas", "adding", "removing"], rows, numbers=["partition"])


def _broker_ids(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.isdecimal() for part in parts):
        raise typer.BadParameter(f"{text!r} is not a list of broker ids, such as 1,2,3", param_hint="--brokers")
    return list(dict.fromkeys(map(int, parts)))


def _check_brokers(wanted: Iterable[int], there: Iterable[int]) -> None:
    alive = set(there)
    for broker in sorted(wanted):
        if broker not in alive:
            names = ", ".join(map(str, sorted(alive)))
            raise BrokerNotAvailableError(f"the cluster has no broker {broker} that is alive; there is {names}")


def _write_current(client: Admin, file: Path | None, replicas: Mapping[TopicPartition, tuple[int, ...]]) -> None:
    """Write the current assignment as a plan to a file, or to standard error."""
    keys = [TopicPartitionReplica(*key, broker) for key, brokers in replicas.items() for broker in brokers]
    infos = current_log_dirs(client, dict.fromkeys(keys))
    log_dirs = {key: info.current_log_dir for key, info in infos.items() if info.current_log_dir is not None}
    text = msgspec.json.encode(plan_document(replicas, log_dirs)).decode()
    if file is None:
        output.notice(f"this plan restores the current assignment: {text}")
    else:
        file.write_text(f"{text}\n", encoding="utf-8")


def _start_log_dir_moves(client: Admin, targets: Mapping[TopicPartitionReplica, str]) -> None:
    """Start moves between directories; a replica on a new broker can be moved once it has been created there."""
    clock = current().monotonic
    end = clock() + timeout_seconds()
    left = dict(targets)
    while left:
        done, error = succeeded(partial(client.alter_replica_log_dirs, left))
        if error is None:
            return
        left = {key: path for key, path in left.items() if key not in done}
        missing = all(isinstance(each, ReplicaNotAvailableError) for each in error.errors.values())
        if not missing or clock() > end:
            raise error
        sleep(_PAUSE_SECONDS)


def _remove_throttles(client: Admin, plan: Plan, topics: set[str]) -> None:
    alive = client.describe_cluster().brokers
    remove_throttles(client, topics, alive)
    if absent := sorted(plan.brokers - set(alive)):
        names = ", ".join(map(str, absent))
        output.notice(f"brokers that are not alive keep their throttles until the plan is verified again: {names}")


def _show_progress(partitions: Iterable[PartitionProgress], log_dirs: Iterable[LogDirProgress]) -> None:
    rows: list[tuple[object, ...]] = [
        (each.topic, each.partition, None, each.state.value, output.joined(each.replicas), output.joined(each.target))
        for each in partitions
    ]
    rows += [
        (each.topic, each.partition, each.broker, each.state.value, each.log_dir, each.target) for each in log_dirs
    ]
    output.table(["topic", "partition", "broker", "state", "now", "target"], rows, numbers=["partition", "broker"])
