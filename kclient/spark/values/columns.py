"""Decoding and encoding of columns, value by value: the format of the registry, and the choice of codecs.

A value is preceded by a zero byte and the id of the schema as a big-endian int32; for Protobuf, the index of the
message within its file follows. The registry client and fetched schemas live as long as the process. Elsewhere: the
codecs (`avro`, `json_schema`, `protobuf`).
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import msgspec

from kclient.spark.errors import MissingRequirementError, SourceError
from kclient.spark.forks import forget_in_children
from kclient.spark.values.errors import ValueSchemaError
from kclient.spark.values.types import plain

if TYPE_CHECKING:
    import pyarrow
    from confluent_kafka.schema_registry import RegisteredSchema, Schema, SchemaRegistryClient

MAGIC = 0
_FRAME = struct.Struct(">bi")

FORMAT = "serialized"
"""The requested format: for Protobuf descriptors instead of source; without effect for the others."""

NOT_FOUND = 404

Registry = tuple[tuple[str, Any], ...]
"""The configuration of the registry client, in order."""

T = TypeVar("T")

Readers = Callable[[int], tuple[Any, str | None]]
"""Returns what is needed to decode values of a schema, by its id, or why they cannot be decoded."""

MAX_MESSAGE_LENGTH = 300
"""The maximum characters of a library's message in an error."""

_CREDENTIALS = re.compile(r"(\w+://)?[^\s,]*@")

FORMATS = {"AVRO": "avro", "JSON": "json_schema", "PROTOBUF": "protobuf"}
"""The module for each type of schema; the registry omits the type for Avro."""


class Codec(Protocol):
    """A codec for the schema of a column."""

    def arrow_type(self) -> pyarrow.DataType:
        """Return the type of the column.

        Raises:
            ValueSchemaError: the type does not exist in Spark.
        """

    def reader(self, written: Schema) -> Any:
        """Return what `decode` needs for values of a schema."""

    def decode(self, data: memoryview, reader: Any) -> Any:
        """Decode the bytes after the schema id."""

    def encode(self, value: Any) -> bytes:
        """Return the bytes after the schema id."""


class Values(msgspec.Struct, frozen=True):
    """The parameters of a column; it is pickled, and each process creates the rest from it once.

    Attributes:
        registry: the configuration of the registry client, in order.
        subject: the subject.
        version: its version.
        message: for Protobuf, the full name of the message; None for the first one of the file.
    """

    registry: Registry
    subject: str
    version: int
    message: str | None = None

    @classmethod
    def of(
        cls, registry: str | Mapping[str, object], subject: str, version: int | None, message: str | None = None
    ) -> Self:
        """Return the parameters with the version of the schema resolved.

        Raises:
            ValueSchemaError: the registry has no such schema.
        """
        config = {"url": registry} if isinstance(registry, str) else dict(registry)
        key = tuple(sorted(config.items()))
        found = _registered(key, subject, version)
        return cls(key, subject, found.version or 0, message)

    def codec(self) -> Codec:
        """Return the codec for the subject's schema."""
        return _codec(self)[0]


def decode(values: Values, column: pyarrow.Array, is_lenient: bool) -> pyarrow.Array:
    """Decode a column of values to its type.

    Raises:
        ValueSchemaError: a value cannot be decoded, and that is not lenient.
    """
    import pyarrow

    kind = values.codec().arrow_type()
    rows = column.to_pylist()
    # A missing schema is requested once per batch, even if many values name it; the next batch requests it again.
    readers = functools.cache(functools.partial(_tried_reader, values))
    if not is_lenient:
        found = [None if data is None else _decoded(values, readers, data, None, is_lenient) for data in rows]
        # To find the value that does not fit the column, check them one by one after the conversion has failed.
        with contextlib.suppress(Exception):
            return pyarrow.array(found, kind)
    return pyarrow.array(
        [None if data is None else _decoded(values, readers, data, kind, is_lenient) for data in rows], kind
    )


def encode(values: Values, column: pyarrow.Array) -> pyarrow.Array:
    """Encode a column of values.

    Raises:
        ValueSchemaError: a value does not fit the schema.
    """
    import pyarrow

    codec, own = _codec(values)
    frame = _FRAME.pack(MAGIC, own.schema_id)
    found = []
    for row, value in enumerate(column.to_pylist()):
        try:
            found.append(None if value is None else frame + codec.encode(plain(value, column.type)))
        except Exception as error:  # noqa: BLE001 - each format has errors of its own
            raise ValueSchemaError(
                f"row {row} does not match version {values.version} of {values.subject!r}: {_short(error)}"
            ) from None
    return pyarrow.array(found, pyarrow.binary())


def _decoded(values: Values, readers: Readers, data: bytes, kind: pyarrow.DataType | None, is_lenient: bool) -> Any:
    """Decode a value; check it against the type `kind` if there is one."""
    value, problem = _tried(values, readers, data, kind)
    if problem is None or is_lenient:
        return value
    raise ValueSchemaError(
        f"cannot decode a value of {len(data)} bytes as {values.subject!r}: {problem}. on_error='null' makes such "
        "values null"
    )


def _tried(values: Values, readers: Readers, data: bytes, kind: pyarrow.DataType | None) -> tuple[Any, str | None]:
    import pyarrow

    if len(data) < _FRAME.size or data[0] != MAGIC:
        return None, f"it does not begin with {MAGIC} and the id of a schema"
    schema_id = _FRAME.unpack_from(data)[1]
    reader, problem = readers(schema_id)
    if problem is not None:
        return None, problem
    try:
        value = values.codec().decode(memoryview(data)[_FRAME.size :], reader)
        if kind is not None:
            pyarrow.array([value], kind)
        return value, None
    except Exception as error:  # noqa: BLE001 - each format has errors of its own
        return None, f"it was written with schema {schema_id} and cannot be decoded: {_short(error)}"


def _tried_reader(values: Values, schema_id: int) -> tuple[Any, str | None]:
    try:
        return _reader(values, schema_id), None
    except ValueSchemaError as error:
        return None, error.message


def _short(error: Exception) -> str:
    """Return a library's message, shortened."""
    return _first_line(str(error).strip() or type(error).__name__)


def _short_without_credentials(error: Exception) -> str:
    """Return a library's message that may contain the registry's URL, without credentials; shortened last, so that no
    part of a password remains.
    """
    return _first_line(_without_credentials(str(error).strip()) or type(error).__name__)


def _first_line(text: str) -> str:
    """Return the first line: libraries append whole schemas, and repeat values of any length."""
    return text.splitlines()[0][:MAX_MESSAGE_LENGTH]


def _without_credentials(text: str) -> str:
    """Return a text with URLs without user and password."""
    return _CREDENTIALS.sub(r"\1", text)


# -- caches of the process


@functools.lru_cache(maxsize=16)
def _client(registry: Registry) -> SchemaRegistryClient:
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
    except ImportError as error:
        raise MissingRequirementError(
            f"this needs the registry client, here and on every executor: pip install 'kclient[registry]' ({error})"
        ) from None
    try:
        return SchemaRegistryClient(dict(registry))
    except (ValueError, TypeError, OSError) as error:
        raise SourceError(f"the registry client cannot be created: {_short_without_credentials(error)}") from None


# Its connections belong to the parent; the child creates its own client.
forget_in_children(_client.cache_clear)


@functools.lru_cache(maxsize=256)
def _codec(values: Values) -> tuple[Codec, RegisteredSchema]:
    found = _registered(values.registry, values.subject, values.version)
    kind = _kind(found.schema)
    if kind not in FORMATS:
        raise ValueSchemaError(f"{values.subject!r} has schemas of type {kind}; supported are {', '.join(FORMATS)}")
    module = importlib.import_module(f"kclient.spark.values.{FORMATS[kind]}")
    with _named(f"version {values.version} of {values.subject!r}"):
        return module.make(values.registry, found.schema, values.message), found


@functools.lru_cache(maxsize=1024)
def _reader(values: Values, schema_id: int) -> Any:
    """Return what is needed to decode values of a schema.

    Raises:
        ValueSchemaError: the schema does not exist, or has another format.
        SourceError: the registry does not respond.
    """
    codec, own = _codec(values)
    schema = _asked(values.registry, lambda client: client.get_schema(schema_id, fmt=FORMAT), f"no schema {schema_id}")
    if _kind(schema) != _kind(own.schema):
        raise ValueSchemaError(f"schema {schema_id} is of type {_kind(schema)}, not {_kind(own.schema)}")
    with _named(f"schema {schema_id}"):
        return codec.reader(schema)


def _kind(schema: Schema) -> str:
    return schema.schema_type or "AVRO"


@contextlib.contextmanager
def _named(which: str) -> Iterator[None]:
    """Name the schema in the error of a library that cannot parse it."""
    try:
        yield
    except SourceError:
        raise
    except Exception as error:  # noqa: BLE001 - each format has errors of its own
        raise ValueSchemaError(f"{which} cannot be read: {_short(error)}") from None


def _registered(registry: Registry, subject: str, version: int | None) -> RegisteredSchema:
    if version is None:
        return _asked(
            registry, lambda client: client.get_latest_version(subject, fmt=FORMAT), f"no subject {subject!r}"
        )
    what = f"no version {version} of {subject!r}"
    return _asked(registry, lambda client: client.get_version(subject, version, fmt=FORMAT), what)


def _asked(registry: Registry, ask: Callable[[SchemaRegistryClient], T], missing: str) -> T:
    client = _client(registry)
    from confluent_kafka.schema_registry import SchemaRegistryError

    url = _without_credentials(str(dict(registry)["url"]))
    try:
        return ask(client)
    except SchemaRegistryError as error:
        if error.http_status_code == NOT_FOUND:
            raise ValueSchemaError(f"the registry on {url} has {missing}") from None
        raise SourceError(f"the registry on {url} answers: {_short_without_credentials(error)}") from None
    except Exception as error:  # noqa: BLE001 - the HTTP client it uses differs with its version
        raise SourceError(f"the registry on {url} does not answer: {_short_without_credentials(error)}") from None


def references(registry: Registry, schema: Schema) -> dict[str, Schema]:
    """Return the schemas that a schema refers to, transitively, by name, dependencies first.

    Raises:
        ValueSchemaError: the registry does not have one of them; soft-deleted versions are found.
        SourceError: the registry does not respond.
    """
    found: dict[str, Schema] = {}
    for reference in schema.references or []:
        other = _referred(registry, reference.subject, reference.version)
        found.update(references(registry, other))
        found[reference.name] = other
    return found


def _referred(registry: Registry, subject: str, version: int) -> Schema:
    missing = f"no version {version} of {subject!r}, to which a schema refers"
    return _asked(
        registry, lambda client: client.get_version(subject, version, deleted=True, fmt=FORMAT), missing
    ).schema
