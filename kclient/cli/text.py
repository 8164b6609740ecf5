"""What users write on the command line for what a keyboard cannot."""

from __future__ import annotations

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
