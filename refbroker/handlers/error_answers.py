"""Error responses, derived from the declarations of request and response.

An error response names what its request named (topics, partitions, groups, resources, keys), and has the code in every
field for one. All other fields are as in Kafka's error responses: offsets -1, no records, empty lists. This module does
not refer to single APIs, so it works for APIs that are added later. The correspondence: an array of the response whose
structs carry error codes mirrors those arrays of the request that identify the same things, by fields that mean the
same.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, TypeVar

from kclient.protocol import Message, Struct
from kclient.protocol.fields import Field, Type, fields_of
from refbroker.handlers.naming import Covers, Resolve, shape_of

S = TypeVar("S", bound=Struct)

CODES = ("error_code", "partition_error_code")
TEXT = "error_message"

IDENTITY = {
    **dict.fromkeys(("name", "topic", "topic_name", "user"), "name"),
    **dict.fromkeys(("partition", "partition_index", "partition_id", "index"), "partition"),
    **{
        name: name
        for name in (
            "topic_id",
            "group_id",
            "member_id",
            "group_instance_id",
            "transactional_id",
            "producer_id",
            "resource_type",
            "resource_name",
            "feature",
            "entity",
            "key",
            "id",
        )
    },
}
"""The identifying fields of structs, and which of them have the same meaning."""


# What an error answer looks like


def outline(request: Message, version: int) -> Message:
    """Return the response to a request, with everything that the request names, and no error code yet."""
    answer = blank(request.response_type, version)
    _mirror(answer, request, version)
    return answer


def _mirror(target: Struct, source: Struct, version: int) -> None:
    for field in fields_of(type(target)):
        kind = _element(field)
        if kind is not None and version in field.versions and has_codes(kind, version):
            items = [_made(kind, item, version) for item in _sources(source, kind)]
            setattr(target, field.name, items)


def _made(kind: type[Struct], item: Any, version: int) -> Struct:
    """Return a struct of the response for an item of the request."""
    made = blank(kind, version)
    if not isinstance(item, Struct):
        name = _first_of_type(kind, "string" if isinstance(item, str) else "int32")
        assert name is not None
        setattr(made, name, item)
        return made
    given = {IDENTITY[field.name]: field for field in fields_of(type(item)) if field.name in IDENTITY}
    for field in fields_of(kind):
        same = given.get(IDENTITY.get(field.name, ""))
        if same is None or version not in field.versions or same.type.name != field.type.name:
            continue
        value = getattr(item, same.name)
        inner = _element(field)
        if inner is not None and value is not None:
            value = [_copy(inner, one) for one in value]
        setattr(made, field.name, value)
    _mirror(made, item, version)
    return made


def _copy(kind: type[Struct], item: Struct) -> Struct:
    names = {field.name for field in fields_of(kind)} & {field.name for field in fields_of(type(item))}
    return kind(**{name: getattr(item, name) for name in names})


def _sources(source: Struct, kind: type[Struct]) -> Iterator[Any]:
    """Yield the items of a request that a struct of the response is about, the nearest arrays first."""
    arrays = [
        field
        for field in fields_of(type(source))
        if field.type.name == "array" and not field.name.startswith("forgotten")
    ]
    fitting = [field for field in arrays if _fits(field.type.element, kind)]
    if fitting:
        for field in fitting:
            yield from getattr(source, field.name) or ()
        return
    for field in arrays:
        if _element(field) is not None:
            for item in getattr(source, field.name) or ():
                yield from _sources(item, kind)


@cache
def _fits(element: Type | None, kind: type[Struct]) -> bool:
    """Return whether items of the request identify a struct of the response."""
    assert element is not None
    if element.struct is None:
        return element.name in ("string", "int32") and _first_of_type(kind, element.name) is not None
    if shape_of(kind).names_topics and not shape_of(element.struct).names_topics:
        # Both may have a name that is not a topic's.
        return False
    own = {IDENTITY[field.name] for field in fields_of(kind) if field.name in IDENTITY}
    theirs = {IDENTITY[field.name] for field in fields_of(element.struct) if field.name in IDENTITY}
    if own & theirs:
        return True
    # A struct with a result only belongs to the item at its position.
    return all(field.name in (*CODES, TEXT) or field.type.name == "array" for field in fields_of(kind))


def _first_of_type(kind: type[Struct], wire: str) -> str | None:
    return next((field.name for field in fields_of(kind) if field.type.name == wire and field.name != TEXT), None)


def blank(kind: type[S], version: int) -> S:
    """Return a struct of a response as it is beside an error: nothing found, nothing stored."""
    made = kind()
    for field in fields_of(kind):
        if version not in field.versions:
            continue
        if field.type.name == "records":
            setattr(made, field.name, b"")
        elif field.default == 0 and (
            (field.type.name == "int64" and field.name.endswith(("offset", "watermark")))
            or (field.type.name == "int32" and field.name in ("node_id", "port"))
        ):
            setattr(made, field.name, -1)
    return made


# Codes


@cache
def has_own_code(kind: type[Struct], version: int) -> bool:
    """Return whether a struct has an error code, besides those inside it."""
    return any(field.name in CODES and version in field.versions for field in fields_of(kind))


@cache
def has_codes(kind: type[Struct], version: int) -> bool:
    """Return whether a struct, or one inside it, has an error code."""
    return has_own_code(kind, version) or any(has_codes(inner, version) for inner in _inner(kind, version))


@cache
def has_codes_of_topics(kind: type[Struct], version: int, in_topic: bool = False) -> bool:
    """Return whether topics or partitions have their own error codes in a response."""
    in_topic = in_topic or shape_of(kind).names_topics
    return (in_topic and has_own_code(kind, version)) or any(
        has_codes_of_topics(inner, version, in_topic) for inner in _inner(kind, version)
    )


def put_code(value: Struct, version: int, code: int, text: str | None, *, topics_only: bool = False) -> int:
    """Write an error to every code of a response; return their number.

    Parameters:
        value: the response, or a part of it.
        version: the version of the API.
        code: Kafka's number of the error.
        text: the message for codes that have one.
        topics_only: whether to skip codes that do not belong to a topic or partition.
    """
    own = not topics_only or shape_of(type(value)).names_topics
    places = put_own_code(value, version, code, text) if own else 0
    for field in fields_of(type(value)):
        if version in field.versions and _element(field) is not None:
            for item in getattr(value, field.name) or ():
                places += put_code(item, version, code, text, topics_only=not own)
    return places


def put_own_code(value: Struct, version: int, code: int, text: str | None) -> int:
    """Write an error to a struct's own code, if it has one; return the number of codes written."""
    if not has_own_code(type(value), version):
        return 0
    for field in fields_of(type(value)):
        if version in field.versions:
            if field.name in CODES:
                setattr(value, field.name, code)
            elif field.name == TEXT:
                setattr(value, field.name, text)
    return 1


# Answers that say an error of some topics and partitions only


def places_of(
    value: Struct, version: int, covers: Covers, resolve: Resolve, topic: str | None = None
) -> Iterator[tuple[list[Struct], int]]:
    """Yield the lists, and indexes into them, of a response's entries for some topics and partitions that have a code.

    Parameters:
        value: the response, or a part of it.
        version: the version of the API.
        covers: returns whether a topic and partition match.
        resolve: finds names of topics by id.
        topic: the topic of the enclosing parts.
    """
    for array, kind in shape_of(type(value)).arrays:
        items = getattr(value, array) or []
        shape = shape_of(kind)
        for index, item in enumerate(items):
            subject = shape.topic_of(item, resolve) if topic is None else topic
            partition = None if shape.partition is None else getattr(item, shape.partition)
            if subject is not None and has_own_code(kind, version) and covers(subject, partition):
                yield items, index
            else:
                yield from places_of(item, version, covers, resolve, subject)


def failed(item: Struct, version: int, code: int, text: str | None) -> Struct:
    """Return the response's entry for a failure; parameters as for `put_code`."""
    made = blank(type(item), version)
    for field in fields_of(type(item)):
        if field.name in IDENTITY:
            setattr(made, field.name, getattr(item, field.name))
    put_own_code(made, version, code, text)
    return made


def merge(answer: Struct, errors: Struct) -> None:
    """Add the entries of another response of the same type."""
    for field in fields_of(type(answer)):
        if _element(field) is None:
            continue
        own: list[Struct] = getattr(answer, field.name) or []
        known = {_identity(item): item for item in own}
        for item in getattr(errors, field.name) or ():
            same = known.get(_identity(item))
            if same is None:
                own.append(item)
            else:
                merge(same, item)
        setattr(answer, field.name, own)


def _identity(value: Struct) -> tuple[object, ...]:
    return tuple(str(getattr(value, field.name)) for field in fields_of(type(value)) if field.name in IDENTITY)


def _inner(kind: type[Struct], version: int) -> list[type[Struct]]:
    """Return the structs of the arrays in a struct, for a version."""
    found = (_element(field) for field in fields_of(kind) if version in field.versions)
    return [inner for inner in found if inner is not None]


def _element(field: Field) -> type[Struct] | None:
    """Return the struct of an array of structs; None for any other field."""
    return field.type.element.struct if field.type.element is not None else None
