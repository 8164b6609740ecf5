"""What the smaller examples are given: each says it in its own first lines, as `usage: consumer.py BOOTSTRAP TOPIC`."""

from __future__ import annotations

import re
import sys


def arguments(documentation: str | None) -> list[str]:
    """The arguments of this program; the usage, and exit code 2, where they are not as many as that says.

    Parameters:
        documentation: the program's `__doc__`; in its usage `[A]` may be left out, and `A...` given more than once.
    """
    usage = re.search(r"usage: \S+ (.+)", documentation or "")
    if usage is None:
        raise ValueError("the program does not say how it is used")
    names, given = usage[1].split(), sys.argv[1:]
    least = sum(not name.startswith("[") for name in names)
    if len(given) < least or (len(given) > len(names) and not names[-1].endswith("...")):
        print(usage[0], file=sys.stderr)
        sys.exit(2)
    return given
