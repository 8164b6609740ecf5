r"""A reader for Java's .properties files: clients' options, and a broker's `server.properties` and `meta.properties`.

    # a comment, as is a line that begins with !
    name=value
    name: value
    name value
    log.dirs=/one,\
        /two                                   a backslash at the end of a line continues it
    path=C\:\\data \u00e9                      an escaped character stands for itself, except t, n, r, f and u

Java reads these files as ISO-8859-1. Blanks before a name and around the separator are ignored; blanks at the end of a
value belong to it. The last value of a repeated name counts. Not implemented: writing, and checks of names or values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from kclient.errors import ConfigError

ENCODING = "iso-8859-1"

_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_NAME = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)", re.DOTALL)


def read_properties(path: Path) -> dict[str, str]:
    """Return the properties in a file.

    Raises:
        OSError: the file cannot be read.
        ConfigError: an escape is invalid; the text names the file and the line.
    """
    try:
        return parse_properties(path.read_bytes().decode(ENCODING))
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error


def parse_properties(text: str) -> dict[str, str]:
    """Return the properties in a file's text.

    Raises:
        ValueError: an escape is invalid; the text names the line.
    """
    found = {}
    for number, line in _logical_lines(text):
        name = _NAME.match(line)
        assert name is not None
        separator = _SEPARATOR.match(line, name.end())
        assert separator is not None
        try:
            found[_unescape(name[0])] = _unescape(line[separator.end() :])
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line joined with its continuation lines, and its number; skip comments and empty lines."""
    held, start = None, 0
    for number, line in enumerate(_LINE_END.split(text), 1):
        line = line.lstrip(_BLANKS)
        if held is None:
            if not line or line[0] in "#!":
                continue
            held, start = "", number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            held += line[:-1]
            continue
        yield start, held + line
        held = None
    if held:
        yield start, held


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    # Java's characters have 16 bits; one beyond them is written as two escapes.
    halves = _ESCAPE.sub(_meant, text).encode("utf-16-le", "surrogatepass")
    return halves.decode("utf-16-le", "replace")


def _meant(escape: re.Match[str]) -> str:
    what = escape[1]
    if what == "u":
        raise ValueError("\\u is followed by four hexadecimal digits")
    if len(what) == 5:
        return chr(int(what[1:], 16))
    return _ESCAPES.get(what, what)
