"""What users write on the command line for what a keyboard cannot, and for points in time."""

from __future__ import annotations

from datetime import datetime

import typer


def unescaped(text: str, option: str) -> str:
    r"""Text with Python's escapes, as `\t`, `\n` or `\x00`; all else stays as it is.

    Raises:
        typer.BadParameter: it holds an escape that does not exist; `option` is who it is for.
    """
    try:
        # What is beyond Latin-1 becomes an escape as well, and so survives a codec that reads Latin-1.
        return text.encode("latin-1", "backslashreplace").decode("unicode_escape")
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{text!r} holds an escape that is none: {error.reason}", param_hint=option) from None


def milliseconds(text: str, option: str) -> int:
    """A point in time, in milliseconds since the epoch; without a zone it is local.

    Raises:
        typer.BadParameter: it is neither milliseconds nor ISO 8601; `option` is who it is for.
    """
    if text.isdecimal():
        return int(text)
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        message = f"{text!r} is neither milliseconds nor a time in ISO 8601"
        raise typer.BadParameter(message, param_hint=option) from None
