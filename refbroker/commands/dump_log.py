"""`refbroker dump-log`: shows a broker's files. It has the options of Kafka's DumpLogSegments, and a few more."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_parser(commands: Any) -> None:
    """Declare the command's options."""
    dump = commands.add_parser(
        "dump-log", help="show the contents of a broker's files", description="Show the contents of a broker's files."
    )
    dump.add_argument("paths", metavar="FILE", nargs="*", type=Path, help="a file, or a folder with files")
    dump.add_argument("--files", metavar="FILE,FILE", default="", help="files, separated by commas as for Kafka's tool")
    dump.add_argument(
        "--records",
        action="store_true",
        help="show records, not only batches; decode those of internal topics",
    )
    dump.add_argument("--print-data-log", action="store_true", help="show records, with keys and values as text")
    dump.add_argument("--deep-iteration", action="store_true", help="show records, without keys and values")
    dump.add_argument("--skip-record-metadata", action="store_true", help="show only the keys and values of records")
    for decoder, topic in (
        ("offsets", "__consumer_offsets"),
        ("transaction-log", "__transaction_state"),
        ("cluster-metadata", "__cluster_metadata"),
    ):
        dump.add_argument(
            f"--{decoder}-decoder",
            dest="decoder",
            action="store_const",
            const=decoder,
            help=f"show records, decoded as those of {topic}",
        )
    dump.add_argument(
        "--index-sanity-check", action="store_true", help="only check indexes, as a broker does when it starts"
    )
    dump.add_argument(
        "--verify-index-only", action="store_true", help="compare indexes with their segments without showing them"
    )
    dump.add_argument("--max-bytes", metavar="BYTES", type=_size, help="read at most this much of each segment")
    dump.add_argument(
        "--max-message-size", metavar="BYTES", type=_size, default=5 << 20, help="the largest batch (default: 5 MiB)"
    )
    dump.add_argument("--json", action="store_true", help="print one JSON object per line")
    dump.set_defaults(do=dump_log)


def _size(text: str) -> int:
    size = int(text)
    if size < 0:
        raise argparse.ArgumentTypeError(f"the size {text} is negative")
    return size


def dump_log(options: argparse.Namespace) -> int:
    """Show the files; return the exit status: 1 when one of them is invalid.

    Raises:
        ConfigError: no file is named.
    """
    from kclient.errors import ConfigError
    from refbroker.dump import DumpOptions, dump_files

    paths = [*options.paths, *(Path(name) for name in options.files.split(",") if name)]
    if not paths:
        raise ConfigError("no file is named; give the names of files or of a folder")
    decoder = options.decoder or ("text" if options.print_data_log and not options.records else None)
    shown = DumpOptions(
        print_data_log=options.records or options.print_data_log or options.decoder is not None,
        deep_iteration=options.deep_iteration,
        decoder=decoder,
        skip_record_metadata=options.skip_record_metadata,
        max_bytes=options.max_bytes,
        max_message_size=options.max_message_size,
        index_sanity_check=options.index_sanity_check,
        verify_index_only=options.verify_index_only,
        as_json=options.json,
    )
    return dump_files(paths, shown)
