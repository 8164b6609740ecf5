"""Converts the declarations of `schema` to plain descriptions of fields, for the codec compilers and tests."""

from __future__ import annotations

import types
from functools import cache
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from kclient.protocol.schema import LAST_VERSION, Struct, Versions, Wire, Word

FIXED_FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""The fixed-width types and their formats in the struct module."""

INTEGERS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}

_PLAIN = {str: "string", bytes: "bytes", bool: "bool", UUID: "uuid"}


class Type(NamedTuple):
    """The type of a value on the wire.

    `name` is Kafka's name of the type, "array" (of `element`) or "struct" (of class `struct`).
    """

    name: str
    element: Type | None = None
    struct: type[Struct] | None = None


class Field(NamedTuple):
    """The complete declaration of a field."""

    name: str
    type: Type
    versions: Versions
    nullable: Versions
    tag: int | None
    tagged: Versions
    default: Any
    ignorable: bool
    map_key: bool
    secret: bool
    not_flexible: bool
    null_as_empty: bool

    def is_tagged(self, version: int) -> bool:
        """Return whether the field is tagged at a version that has it."""
        return self.tag is not None and version in self.tagged


@cache
def fields_of(cls: type[Struct]) -> tuple[Field, ...]:
    """Return the fields of a struct or message, in the order of the wire.

    Raises:
        TypeError: the declaration is inconsistent.
    """
    hints = get_type_hints(cls, include_extras=True)
    ordinary = cls()
    names = [name for name in cls.__struct_fields__ if name != "unknown_tagged_fields"]
    return tuple(_field(name, hints[name], getattr(ordinary, name)) for name in names)


def _field(name: str, hint: Any, default: Any) -> Field:
    hint, remarks = _peel(hint)
    words = {remark.about: remark.value for remark in remarks if isinstance(remark, Word)}
    can_be_null = False
    if get_origin(hint) in (Union, types.UnionType):
        can_be_null = type(None) in get_args(hint)
        (hint,) = (part for part in get_args(hint) if part is not type(None))
        hint, inner = _peel(hint)
        remarks += inner
    kind = _type(hint, remarks)
    everywhere = Versions(0, LAST_VERSION)
    tag, tagged = words.get("tagged", (None, Versions(0, -1)))
    return Field(
        name=name,
        type=kind,
        versions=words.get("versions", everywhere),
        nullable=words.get("nullable", everywhere) if can_be_null else Versions(0, -1),
        tag=tag,
        tagged=tagged,
        default=default,
        ignorable=words.get("ignorable", False),
        map_key=words.get("map_key", False),
        secret=words.get("secret", False),
        not_flexible=words.get("not_flexible", False),
        null_as_empty=words.get("null_as_empty", False),
    )


def _peel(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    if get_origin(hint) is Annotated:
        return hint.__origin__, hint.__metadata__
    return hint, ()


def _type(hint: Any, remarks: tuple[Any, ...]) -> Type:
    for remark in remarks:
        if isinstance(remark, Wire):
            return Type(remark.name)
    if get_origin(hint) is list:
        return Type("array", element=_type(*_peel(get_args(hint)[0])))
    if isinstance(hint, type) and issubclass(hint, Struct):
        return Type("struct", struct=hint)
    if hint in _PLAIN:
        return Type(_PLAIN[hint])
    raise TypeError(f"{hint!r} is not a type of Kafka's protocol")


def min_size(kind: Type, version: int, flexible: bool) -> int:
    """Return the minimum number of bytes of a non-null value."""
    if kind.name in FIXED_FORMATS:
        return {"?": 1, "b": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8, "16s": 16}[FIXED_FORMATS[kind.name]]
    if kind.name == "struct":
        assert kind.struct is not None
        present = (
            field for field in fields_of(kind.struct) if version in field.versions and not field.is_tagged(version)
        )
        sizes = (
            1
            if field.type.name == "struct" and version in field.nullable
            else min_size(field.type, version, flexible and not field.not_flexible)
            for field in present
        )
        return sum(sizes) + flexible
    if flexible:
        return 1
    return 2 if kind.name == "string" else 4


def explain(value: Struct, version: int, path: str = "") -> str | None:
    """Return a description of the first field whose value does not fit its type; for error messages, and slow."""
    for field in fields_of(type(value)):
        if version in field.versions:
            problem = _misfit(getattr(value, field.name), field.type, version in field.nullable, version)
            if problem is not None:
                return f"{path}{field.name}{problem}"
    return None


def _misfit(value: Any, kind: Type, null_allowed: bool, version: int) -> str | None:
    if value is None:
        return None if null_allowed else " cannot be null"
    if kind.name == "array":
        assert kind.element is not None
        if not isinstance(value, list | tuple):
            return f" must be a list, not {value!r}"
        problems = ((index, _misfit(item, kind.element, False, version)) for index, item in enumerate(value))
        return next((f"[{index}]{problem}" for index, problem in problems if problem is not None), None)
    if kind.name == "struct":
        assert kind.struct is not None
        if not isinstance(value, kind.struct):
            return f" must be a {kind.struct.__qualname__}, not {value!r}"
        return explain(value, version, ".")
    if kind.name in INTEGERS:
        low, high = INTEGERS[kind.name]
        fits = isinstance(value, int) and low <= value <= high
        return None if fits else f" must be an {kind.name}, not {value!r}"
    wanted = {"string": str, "bool": bool, "uuid": UUID, "float64": (int, float)}.get(kind.name)
    if wanted is None or isinstance(value, wanted):  # type: ignore[arg-type]
        return None
    return f" must be a {kind.name}, not {type(value).__name__}"
