"""Goes through files, and prints what their readers find; complaints go to standard error, as in Kafka's tool."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from kclient.errors import KafkaError
from refbroker.dump.entries import DumpOptions, Findings
from refbroker.dump.readers import reader_for
from refbroker.dump.rendering import json_line, text_line


def dump_files(paths: Sequence[Path], options: DumpOptions) -> int:
    """Print what is in files; returns 1 when something is wrong with one of them, else 0.

    Parameters:
        paths: of files, or of folders, of which the files are shown that are a broker's.
        options: what is to be shown.
    """
    findings = Findings()
    for path in _files(paths):
        if not path.exists():
            _complain(f"refbroker: there is no file {path}")
            findings.damage = True
            continue
        if not options.as_json:
            sys.stdout.write(f"Dumping {path}\n")
        reader = reader_for(path)
        if reader is None:
            _complain(f"Ignoring unknown file {path}")
            findings.damage = True
            continue
        try:
            for entry in reader(path, options, findings):
                sys.stdout.write((json_line(path, entry) if options.as_json else text_line(entry)) + "\n")
        except BrokenPipeError:
            raise
        except (KafkaError, ValueError, OSError) as error:
            _complain(f"refbroker: {path}: {error}")
            findings.damage = True
    for line in findings.lines():
        _complain(line)
    return 1 if findings.serious else 0


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            inside = [each for each in sorted(path.iterdir()) if each.is_file() and reader_for(each) is not None]
            if not inside:
                _complain(f"refbroker: no file of a broker lies directly in {path}")
            yield from inside
        else:
            yield path


def _complain(line: str) -> None:
    sys.stdout.flush()
    sys.stderr.write(line + "\n")
