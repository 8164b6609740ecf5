"""The topics and partitions of a message, from its declaration.

Kafka's messages name topics in a few ways: a struct with a `topic`, `topic_name`, `topic_id`, or a `name` when it is a
topic's struct; a config resource of type topic; an array of names. Partitions are a number in a struct below it, or an
array of numbers. This holds for all APIs, so this module does not refer to single ones. What a message says about its
subject (assignments and settings of a topic, partitions a session forgets) does not count as naming it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

from kclient.protocol import Struct
from kclient.protocol.fields import fields_of
from refbroker.metadata.image import TOPIC_RESOURCE

Resolve = Callable[[UUID], str | None]
"""Returns the name of a topic by its id."""
Covers = Callable[[str | None, int | None], bool]
"""Returns whether a topic and partition match; without a partition the topic as a whole, without a topic anything
else.
"""

UNKNOWN = ""
"""Stands for a topic with an unknown id."""

PARTITION_FIELDS = frozenset({"partition", "partition_index", "partition_id", "index"})
PARTITION_ARRAYS = frozenset({"partitions", "partition_indexes"})
BESIDE_THE_SUBJECT = frozenset({"assignments", "configs", "forgotten_topics_data"})


class Shape(NamedTuple):
    """How a struct names topics and partitions.

    Attributes:
        names: fields with a topic's name.
        has_id: whether it has a topic's id.
        is_resource: whether it names a config resource, which may be a topic.
        partition: the field with a partition's number, if any.
        partitions: arrays of such numbers.
        topic_names: arrays of names of topics.
        arrays: arrays of structs, which may name more.
    """

    names: tuple[str, ...]
    has_id: bool
    is_resource: bool
    partition: str | None
    partitions: tuple[str, ...]
    topic_names: tuple[str, ...]
    arrays: tuple[tuple[str, type[Struct]], ...]

    def topic_of(self, value: Any, resolve: Resolve) -> str | None:
        """Return the topic that a struct of this shape names; None if it names none."""
        if self.is_resource:
            return value.resource_name if value.resource_type == TOPIC_RESOURCE else None
        for name in self.names:
            if getattr(value, name):
                topic: str = getattr(value, name)
                return topic
        if self.has_id:
            return resolve(value.topic_id) or UNKNOWN
        return UNKNOWN if self.names else None

    @property
    def names_topics(self) -> bool:
        """Whether such a struct is about a topic."""
        return bool(self.names) or self.has_id or self.is_resource


@cache
def shape_of(kind: type[Struct]) -> Shape:
    """Return how a struct names topics and partitions."""
    names: list[str] = []
    partitions: list[str] = []
    topic_names: list[str] = []
    arrays: list[tuple[str, type[Struct]]] = []
    partition = None
    fields = {field.name: field.type for field in fields_of(kind)}
    is_topic = "Topic" in kind.__name__ and "Config" not in kind.__name__
    for name, wire in fields.items():
        if name in ("topic", "topic_name") or (name == "name" and is_topic):
            names.append(name)
        elif name in PARTITION_FIELDS and wire.name == "int32":
            partition = name
        elif wire.name == "array" and name not in BESIDE_THE_SUBJECT:
            assert wire.element is not None
            if wire.element.struct is not None:
                arrays.append((name, wire.element.struct))
            elif wire.element.name == "int32" and name in PARTITION_ARRAYS:
                partitions.append(name)
            elif wire.element.name == "string" and name.endswith("topic_names"):
                topic_names.append(name)
    return Shape(
        names=tuple(names),
        has_id="topic_id" in fields,
        is_resource="resource_type" in fields and "resource_name" in fields,
        partition=partition,
        partitions=tuple(partitions),
        topic_names=tuple(topic_names),
        arrays=tuple(arrays),
    )


@cache
def mentions_topics(kind: type[Struct]) -> bool:
    """Return whether a message, or a part of one, can name topics."""
    shape = shape_of(kind)
    return shape.names_topics or bool(shape.topic_names) or any(mentions_topics(inner) for _, inner in shape.arrays)


def named(value: Struct, resolve: Resolve, topic: str | None = None) -> Iterator[tuple[str, int | None]]:
    """Yield the topics and partitions that a message names; None for a topic without partitions.

    Parameters:
        value: the message, or a part of it.
        resolve: finds names of topics by id.
        topic: the topic of the enclosing parts.
    """
    shape = shape_of(type(value))
    if topic is None:
        topic = shape.topic_of(value, resolve)
    if topic is not None and shape.partition is not None:
        yield topic, getattr(value, shape.partition)
        return
    for array in shape.topic_names:
        for name in getattr(value, array) or ():
            yield name, None
    inner: list[tuple[str, int | None]] = []
    if topic is not None:
        inner += [(topic, number) for array in shape.partitions for number in getattr(value, array) or ()]
    for array, _ in shape.arrays:
        for item in getattr(value, array) or ():
            inner += named(item, resolve, topic)
    yield from inner
    if topic is not None and not inner:
        yield topic, None


def select(value: Struct, keep: Covers, resolve: Resolve, topic: str | None = None) -> None:
    """Drop topics and partitions from a message, in place.

    Parameters:
        value: the message, or a part of it.
        keep: returns whether to keep a topic and partition; called with (None, None) for parts that name no topic.
        resolve, topic: as for `named`.
    """
    shape = shape_of(type(value))
    for array in shape.topic_names:
        if getattr(value, array):
            setattr(value, array, [name for name in getattr(value, array) if keep(name, None)])
    if topic is not None:
        for array in shape.partitions:
            if getattr(value, array):
                setattr(value, array, [number for number in getattr(value, array) if keep(topic, number)])
    for array, _ in shape.arrays:
        if getattr(value, array):
            setattr(value, array, [item for item in getattr(value, array) if _kept(item, keep, resolve, topic)])


def _kept(item: Struct, keep: Covers, resolve: Resolve, topic: str | None) -> bool:
    shape = shape_of(type(item))
    if topic is None:
        topic = shape.topic_of(item, resolve)
    if topic is not None and shape.partition is not None:
        return keep(topic, getattr(item, shape.partition))
    if topic is None and not mentions_topics(type(item)):
        return keep(None, None)
    if topic is None and shape.names_topics:
        # A config resource of another type.
        return keep(None, None)
    inner = [name for name, _ in shape.arrays] + list(shape.partitions) + list(shape.topic_names)
    if topic is not None and not any(getattr(item, name) for name in inner):
        return keep(topic, None)
    select(item, keep, resolve, topic)
    return any(getattr(item, name) for name in inner)
