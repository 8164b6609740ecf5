"""The command `dump-log`: prints the entries of each file, and errors to standard error, as Kafka's tool does."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from kclient.errors import KafkaError
from refbroker.dump.entries import DumpOptions, Findings
from refbroker.dump.readers import reader_for
from refbroker.dump.rendering import json_line, text_line


def dump_files(paths: Sequence[Path], options: DumpOptions) -> int:
    """Print the contents of files and return the exit code: 1 if a file is damaged or inconsistent, else 0.

    Parameters:
        paths: files, or folders; of a folder, the files directly in it that a broker writes are printed.
        options: what to print.
    """
    findings = Findings()
    for path in _files(paths):
        if not path.exists():
            _print_error(f"refbroker: {path} does not exist")
            findings.damage = True
            continue
        if not options.as_json:
            sys.stdout.write(f"Dumping {path}\n")
        reader = reader_for(path)
        if reader is None:
            _print_error(f"Ignoring unknown file {path}")
            findings.damage = True
            continue
        try:
            for entry in reader(path, options, findings):
                sys.stdout.write((json_line(path, entry) if options.as_json else text_line(entry)) + "\n")
        except BrokenPipeError:
            raise
        except (KafkaError, ValueError, OSError) as error:
            _print_error(f"refbroker: {path}: {error}")
            findings.damage = True
    for line in findings.lines():
        _print_error(line)
    return 1 if findings.serious else 0


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            inside = [each for each in sorted(path.iterdir()) if each.is_file() and reader_for(each) is not None]
            if not inside:
                _print_error(f"refbroker: {path} contains no file that a broker writes")
            yield from inside
        else:
            yield path


def _print_error(line: str) -> None:
    sys.stdout.flush()
    sys.stderr.write(line + "\n")
