"""Conversion of types and values between schemas, Arrow and Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow

_SIMPLE = {
    "bool": "boolean",
    "int32": "int",
    "int64": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date32[day]": "date",
    "timestamp[us, tz=UTC]": "timestamp",
    "timestamp[us]": "timestamp_ntz",
}


def ddl(kind: pyarrow.DataType) -> str:
    """Return the Spark spelling of a type."""
    from pyarrow import types

    if types.is_struct(kind):
        return f"struct<{','.join(f'`{_quoted(field.name)}`:{ddl(field.type)}' for field in kind)}>"
    if types.is_list(kind):
        return f"array<{ddl(kind.value_type)}>"
    if types.is_map(kind):
        return f"map<{ddl(kind.key_type)},{ddl(kind.item_type)}>"
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _SIMPLE[str(kind)]


def _quoted(name: str) -> str:
    return name.replace("`", "``")


def plain(value: Any, kind: pyarrow.DataType) -> Any:
    """Return a value of Arrow with dictionaries instead of lists of pairs."""
    from pyarrow import types

    if value is None:
        return None
    if types.is_struct(kind):
        return {field.name: plain(value[field.name], field.type) for field in kind}
    if types.is_list(kind) or types.is_large_list(kind):
        return [plain(each, kind.value_type) for each in value]
    if types.is_map(kind):
        return {key: plain(each, kind.item_type) for key, each in value}
    return value
