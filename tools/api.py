"""List the public API: ``python tools/api.py``, or ``--check`` to compare it with the committed ``docs/api.txt``.

The list has every public name of the modules in `MODULES`, with the signatures of functions, the public methods,
properties and class attributes of classes with their annotations, and the bases of classes. A change to it is a change
for users: the diff of the file is what a reviewer reads, and what CHANGELOG.md has to explain.

Not implemented: what the docstrings promise, and names that modules outside of `MODULES` hold.
"""

from __future__ import annotations

import argparse
import difflib
import enum
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
LISTED = PROJECT / "docs" / "api.txt"
MODULES = (
    "kclient",
    "kclient.admin",
    "kclient.assignors",
    "kclient.errors",
    "kclient.metrics",
    "kclient.serialization",
    "kclient.transform",
    "refbroker",
    "refbroker.testing",
)
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
OPERATOR = re.compile(r"__(aenter|aiter|anext|await|call|contains|enter|getitem|iter|len|next)__")


def public_names(module: Any) -> list[str]:
    """Return the names that a module offers: its `__all__`, or what it defines itself without an underscore."""
    named = getattr(module, "__all__", None)
    if named is not None:
        return sorted(named)
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    )


class Written:
    """An annotation as the source has it, without the quotes that `repr` puts around a string."""

    def __init__(self, annotation: Any) -> None:
        self.annotation = annotation

    def __repr__(self) -> str:
        return self.annotation if isinstance(self.annotation, str) else inspect.formatannotation(self.annotation)


def written(annotation: Any) -> Any:
    """Return what stands for the annotation in a signature; nothing stands for none."""
    return annotation if annotation is inspect.Signature.empty else Written(annotation)


def signature(value: Any) -> str:
    """Return the signature of a function or class as it is written; empty where Python knows none."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    parameters = [each.replace(annotation=written(each.annotation)) for each in found.parameters.values()]
    return ADDRESS.sub(
        "", str(found.replace(parameters=parameters, return_annotation=written(found.return_annotation)))
    )


def members(cls: type, listed: set[type]) -> Iterator[str]:
    """Yield a line for each public member of a class that no listed base of it has already."""
    if issubclass(cls, enum.Enum):
        yield from (f"{member.name} = {member.value!r}" for member in cls)
        return
    inherited = {ancestor for base in cls.__mro__[1:] if base in listed for ancestor in base.__mro__}
    ours = [
        base
        for base in cls.__mro__
        if base not in inherited and base.__module__.partition(".")[0] in ("kclient", "refbroker")
    ]
    annotated = {name: kind for base in reversed(ours) for name, kind in vars(base).get("__annotations__", {}).items()}
    defined = {name: (base, value) for base in reversed(ours) for name, value in vars(base).items()}
    for name in sorted({*annotated, *defined}):
        if name.startswith("_") and not OPERATOR.fullmatch(name):
            continue
        value = inspect.getattr_static(cls, name, None)
        if isinstance(value, property):
            kind = signature(value.fget).partition(" -> ")[2] if value.fget else ""
            yield f"{name}: {kind or '?'}  (property)"
        elif isinstance(value, classmethod | staticmethod):
            yield f"{name}{signature(getattr(cls, name))}  ({type(value).__name__})"
        elif inspect.isroutine(value):
            waits = "async " if inspect.iscoroutinefunction(value) else ""
            yield f"{waits}{name}{signature(value)}"
        elif name in annotated:
            yield f"{name}: {annotated[name]}"
        elif not inspect.isdatadescriptor(value):
            yield f"{name} = {ADDRESS.sub('', repr(value))}"
        else:
            yield name


def lines() -> Iterator[str]:
    """Yield the whole list, module by module."""
    listed = {
        value
        for module in map(importlib.import_module, MODULES)
        for value in (getattr(module, name) for name in public_names(module))
        if inspect.isclass(value)
    }
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        yield f"# {module_name}"
        for name in public_names(module):
            value = getattr(module, name)
            if inspect.isclass(value):
                bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
                yield f"class {name}({bases})" if bases else f"class {name}"
                if not issubclass(value, enum.Enum) and signature(value) not in {
                    signature(base) for base in value.__bases__ if base in listed
                }:
                    yield f"    {name}{signature(value)}"
                yield from (f"    {member}" for member in members(value, listed))
            elif inspect.isroutine(value):
                yield f"{name}{signature(value)}"
            else:
                yield f"{name}: {type(value).__name__}"
        yield ""


def main() -> int:
    """Write the list, or compare it; return 1 if it differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the committed list instead of writing it")
    options = parser.parse_args()
    text = "\n".join(lines())
    if not options.check:
        LISTED.write_text(text, encoding="utf-8")
        return 0
    listed = LISTED.read_text(encoding="utf-8") if LISTED.exists() else ""
    changes = list(
        difflib.unified_diff(listed.splitlines(), text.splitlines(), "docs/api.txt", "the code", lineterm="", n=1)
    )
    print("\n".join(changes), end="\n" if changes else "")
    if changes:
        print("the public API changed: `make api` writes docs/api.txt, CHANGELOG.md explains", file=sys.stderr)
    return 1 if changes else 0


if __name__ == "__main__":
    sys.exit(main())
