"""The declarations say what Kafka's own say, field by field, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kclient.protocol import API_NAMES, Struct, all_messages, request_type, response_type
from kclient.protocol.declaration import Message
from kclient.protocol.fields import Field, Type, fields_of
from kclient.protocol.schema import ZERO_UUID, Versions
from tests.support.golden import plain
from tests.support.golden_data import golden_rows

Fact = dict[str, Any]


@pytest.fixture(scope="module")
def facts() -> dict[str, Fact]:
    return {fact["name"]: fact for fact in golden_rows("message_definitions")}


def test_every_message_of_kafka_is_declared_and_no_other(facts: dict[str, Fact]) -> None:
    assert set(all_messages()) == set(facts)


def test_every_declaration_agrees_with_kafkas(facts: dict[str, Fact]) -> None:
    wrong = [problem for name, fact in facts.items() for problem in differences(all_messages()[name], fact)]
    assert wrong == []


def differences(message: type[Message], fact: Fact) -> Iterator[str]:
    """What a declaration and the facts disagree about."""
    valid = Versions.parse(fact["validVersions"])
    flexible = Versions.parse(fact["flexibleVersions"])
    if (message.min_version, message.max_version) != tuple(valid):
        yield f"{message.message_name}: versions"
    if message.api_key != fact.get("apiKey", -1):
        yield f"{message.message_name}: API key"
    for version in range(valid.first, valid.last + 1):
        if message.is_flexible(version) != (version in flexible):
            yield f"{message.message_name}: flexible versions"
    structs: dict[str, list[Fact]] = {}
    collect(fact["fields"], structs)
    for common in fact.get("commonStructs", []):
        structs[common["name"]] = common["fields"]
        collect(common["fields"], structs)
    nested = {struct.__name__ for struct in structs_of(message)}
    if nested != set(structs):
        yield f"{message.message_name}: structs {sorted(nested ^ set(structs))}"
    for version in range(valid.first, valid.last + 1):
        yield from compare_structs(message, message, fact["fields"], structs, version)


def structs_of(message: type[Message]) -> list[type[Struct]]:
    nested = (value for value in vars(message).values() if isinstance(value, type) and issubclass(value, Struct))
    return [struct for struct in nested if not issubclass(struct, Message)]


def collect(fields: list[Fact], structs: dict[str, list[Fact]]) -> None:
    for fact in fields:
        if "fields" in fact:
            structs[fact["type"].removeprefix("[]")] = fact["fields"]
            collect(fact["fields"], structs)


def compare_structs(
    message: type[Message], cls: type[Struct], facts: list[Fact], structs: dict[str, list[Fact]], version: int
) -> Iterator[str]:
    fields = fields_of(cls)
    if [plain(field.name) for field in fields] != [plain(fact["name"]) for fact in facts]:
        yield f"{cls.__qualname__}: names or order of the fields"
        return
    for field, fact in zip(fields, facts):
        for what in compare(message, field, fact, version):
            yield f"{cls.__qualname__}.{field.name} v{version}: {what}"
        struct_name = fact["type"].removeprefix("[]")
        present = version in Versions.parse(fact.get("versions") or fact["taggedVersions"])
        if struct_name in structs and present:
            yield from compare_structs(message, getattr(message, struct_name), structs[struct_name], structs, version)


def compare(message: type[Message], field: Field, fact: Fact, version: int) -> Iterator[str]:
    present = version in Versions.parse(fact.get("versions") or fact["taggedVersions"])
    if (version in field.versions) != present:
        yield "presence"
        return
    if type_name(field.type) != fact["type"]:
        yield "type"
    if present and (version in field.nullable) != (version in Versions.parse(fact.get("nullableVersions", "none"))):
        yield "nullable"
    if present and field.is_tagged(version) != (version in Versions.parse(fact.get("taggedVersions", "none"))):
        yield "tagged"
    if field.tag != fact.get("tag"):
        yield "tag"
    if field.ignorable != fact.get("ignorable", False):
        yield "ignorable"
    if field.map_key != fact.get("mapKey", False):
        yield "map key"
    if field.not_flexible != (fact.get("flexibleVersions") == "none"):
        yield "flexible versions"
    if field.default != default(message, fact):
        yield "default"


def type_name(kind: Type) -> str:
    if kind.element is not None:
        return "[]" + type_name(kind.element)
    return kind.name if kind.struct is None else kind.struct.__name__


def default(message: type[Message], fact: Fact) -> Any:
    kind, given = fact["type"], fact.get("default", "")
    if given in ("null", None):
        # Java's generator overlooks such a default of a tagged struct.
        return getattr(message, kind)() if "tag" in fact and kind[0].isupper() else None
    if kind.startswith("[]"):
        return []
    if kind == "bool":
        return given in (True, "true")
    if kind == "records":
        return None if "nullableVersions" in fact and fact["nullableVersions"] == "0+" else b""
    plain_defaults = {"string": given, "bytes": b"", "uuid": ZERO_UUID, "float64": 0.0}
    if kind in plain_defaults:
        return plain_defaults[kind]
    return int(str(given or 0), 0) if kind[0].islower() else getattr(message, kind)()


def test_requests_know_their_responses_and_apis_their_names() -> None:
    for key, name in API_NAMES.items():
        request, response = request_type(key), response_type(key)
        assert (request.message_name, response.message_name) == (f"{name}Request", f"{name}Response")
        assert request.response_type is response
        assert (request.min_version, request.max_version) == (response.min_version, response.max_version)


def test_every_api_says_what_it_is_for() -> None:
    for key in API_NAMES:
        module = __import__(request_type(key).__module__, fromlist=["x"])
        assert len((module.__doc__ or "").split()) > 5


def test_what_looks_like_a_secret_is_declared_as_one() -> None:
    names = ("password", "salt", "hmac", "auth_bytes", "stored_key", "server_key")
    open_secrets = [
        f"{struct.__qualname__}.{field.name}"
        for message in all_messages().values()
        for struct in (message, *structs_of(message))
        for field in fields_of(struct)
        if any(name in field.name for name in names) and not field.secret
    ]
    assert open_secrets == []
