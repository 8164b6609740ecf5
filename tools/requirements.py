"""Print the requirements of extras of pyproject.toml, for pip: ``python tools/requirements.py dev interop``.

Extras that refer to extras of the project itself are resolved, so that they install beside an editable project without
another build.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent


def requirements(extras: list[str]) -> list[str]:
    """Return the requirements of these extras, each once, in order.

    Raises:
        KeyError: an extra does not exist.
    """
    table = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    found: dict[str, None] = {}
    for extra in extras:
        for requirement in table[extra]:
            own = re.fullmatch(r"kclient\[(.+)\]", requirement)
            names = requirements(own[1].split(",")) if own else [requirement]
            found.update(dict.fromkeys(names))
    return list(found)


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1:])))
