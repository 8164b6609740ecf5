"""The options: defaults, checks, dotted names, and the typed twin for editors."""

from __future__ import annotations

import re
import typing
from pathlib import Path

import pytest

from kclient import config, options
from kclient._unknown_options import ELSEWHERE, INSTEAD
from kclient.config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig
from kclient.errors import ConfigError

CONFIGS = [ClientConfig, ProducerConfig, ConsumerConfig, AdminConfig]
OPTIONS = {
    ClientConfig: options.ClientOptions,
    ProducerConfig: options.ProducerOptions,
    ConsumerConfig: options.ConsumerOptions,
    AdminConfig: options.AdminOptions,
}


class Audit:
    """An interceptor."""

    def on_acknowledgement(self, metadata: object, error: object, headers: object) -> None: ...


@pytest.mark.parametrize("kind", CONFIGS)
def test_every_option_has_a_description_and_a_default_that_passes_its_own_check(kind: type[ClientConfig]) -> None:
    kind()
    described = config.options_of(kind)
    assert set(described) == set(kind.__struct_fields__)
    assert all(option.doc.endswith(".") for option, _ in described.values())


@pytest.mark.parametrize("kind", CONFIGS)
def test_the_typed_keywords_agree_with_the_config(kind: type[ClientConfig]) -> None:
    declared = {name: hint.__origin__ for name, hint in typing.get_type_hints(kind, include_extras=True).items()}
    assert typing.get_type_hints(OPTIONS[kind]) == declared


def test_an_unknown_option_names_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"no option 'lingerms'; did you mean 'linger_ms'"):
        ProducerConfig.from_options({"lingerms": 3})


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("bootstrap_server", "; did you mean 'bootstrap_servers'?"),
        ("groupid", "; did you mean 'group_id'?"),
        ("group.id", "; did you mean 'group_id'?"),
        ("enable.auto.commit", "; did you mean 'enable_auto_commit'?"),
        ("auto.offset.reset", "; did you mean 'auto_offset_reset'?"),
        ("autoOffsetReset", "; did you mean 'auto_offset_reset'?"),
        ("max-poll-records", "; did you mean 'max_poll_records'?"),
        ("fetch.wait.max.ms", "; did you mean 'fetch_max_wait_ms'?"),
        ("metadata.broker.list", "; did you mean 'bootstrap_servers'?"),
        ("consumer_timeout_ms", ": poll(timeout=seconds) returns without records when none arrived"),
        ("api_version", ": the protocol versions are negotiated with each broker"),
        ("topic", ": pass topics where they are used"),
        ("linger.ms", " here: producers have linger_ms"),
        ("queue.buffering.max.ms", " here: producers have linger_ms"),
    ],
)
def test_an_option_of_another_client_names_what_takes_its_place(option: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=rf"^there is no option '{re.escape(option)}'{re.escape(meant)}"):
        ConsumerConfig.from_options({option: 3})


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("linger_ms", "; did you mean 'linger.ms'?"),
        ("compression.codec", "; did you mean 'compression.type'?"),
        ("partitioner.class", "; did you mean 'partitioner'?"),
        ("interceptors", "; did you mean 'interceptor.classes'?"),
        ("max.poll.records", " here: consumers have max_poll_records"),
        ("default.api.timeout.ms", " here: admins and consumers have default_api_timeout_ms"),
    ],
)
def test_properties_name_what_is_meant_in_their_own_form(option: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=rf"^there is no option '{re.escape(option)}'{re.escape(meant)}"):
        ProducerConfig.from_properties({option: "3"})


def test_what_options_are_called_elsewhere_is_no_option_here_and_leads_to_one() -> None:
    here = {name for kind in CONFIGS for name in kind.__struct_fields__}
    assert here.isdisjoint(ELSEWHERE)
    assert here.isdisjoint(INSTEAD)
    assert here.issuperset(ELSEWHERE.values())
    assert not set(ELSEWHERE) & set(INSTEAD)


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("protocol", ["PLAINTEXT", "plaintext", "SSL", "ssl"])
def test_every_client_accepts_a_security_protocol_in_any_case(kind: type[ClientConfig], protocol: str) -> None:
    assert kind.from_options({"security_protocol": protocol}) is not None
    assert kind.from_properties({"security.protocol": protocol}) is not None


def test_a_security_protocol_that_kafka_does_not_have_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"^security_protocol must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, not 'TLS'$"
    ):
        ProducerConfig.from_options({"security_protocol": "TLS"})


def test_an_option_far_from_all_others_is_an_error_without_a_guess() -> None:
    with pytest.raises(ConfigError, match=r"^there is no option 'zzzzqqq'$"):
        ProducerConfig.from_options({"zzzzqqq": 3})


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"linger_ms": -1}, "linger_ms must be at least 0 ms, not -1"),
        ({"linger_ms": 2**63}, "linger_ms must be from 0 to 9223372036854775807 ms, not 9223372036854775808"),
        ({"linger_ms": "5"}, "linger_ms must be int, not '5'"),
        ({"linger_ms": True}, "linger_ms must be int"),
        ({"compression_type": "brotli"}, "compression_type must be one of 'none', 'gzip'"),
        ({"compression_gzip_level": 0}, "compression_gzip_level must be from 1 to 9, or -1, not 0"),
        ({"compression_gzip_level": -2}, "compression_gzip_level must be from 1 to 9, or -1, not -2"),
        ({"compression_lz4_level": 0}, "compression_lz4_level must be from 1 to 17, not 0"),
        ({"acks": 2}, "acks must be one of 0, 1, -1, 'all'"),
        ({"enable_idempotence": True, "acks": 1}, 'needs acks="all"'),
        ({"enable_idempotence": True, "retries": 0}, "needs retries above 0"),
        ({"transactional_id": ""}, "transactional_id must not be empty"),
        ({"transactional_id": "t", "acks": 1}, 'transactional_id needs acks="all"'),
        ({"transactional_id": "t", "enable_idempotence": False}, "transactional_id needs enable_idempotence"),
        ({"retries": 0}, "retries=0 requires enable_idempotence=False"),
        ({"max_in_flight_requests_per_connection": 6}, "at most 5"),
        ({"delivery_timeout_ms": 1000}, "at least linger_ms"),
        ({"partitioner_ignore_keys": 1}, "must be bool"),
        ({"key_serializer": "org.example.Serializer"}, "key_serializer must be a function or None, not 'org.example"),
        (
            {"bootstrap_servers": 9092},
            'bootstrap_servers must be "host:port,host:port" or a sequence of them, not 9092',
        ),
        ({"interceptors": int}, "interceptors must be a list of objects, not <class 'int'>"),
        pytest.param(
            {"interceptors": [object()]},
            "an interceptor has on_send, on_acknowledgement or both, not <object",
            id="interceptors=object",
        ),
        pytest.param(
            {"interceptors": [Audit]},
            r"an interceptor must be an object, not the class Audit\. Did you mean Audit\(\)\?",
            id="interceptors=class",
        ),
        ({"interceptors": "org.example.Audit"}, "interceptors must be a list of objects, not 'org.example"),
    ],
)
def test_a_wrong_value_says_what_would_be_right(wrong: dict[str, typing.Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        ProducerConfig.from_options(wrong)


@pytest.mark.parametrize(
    ("given", "idempotent", "acks"),
    [
        ({}, True, -1),
        ({"acks": "all"}, True, -1),
        ({"acks": 1}, False, 1),
        ({"acks": 0}, False, 0),
        ({"enable_idempotence": False}, False, -1),
        ({"enable_idempotence": False, "retries": 0}, False, -1),
    ],
)
def test_acks_below_all_alone_turns_idempotence_off(given: dict[str, typing.Any], idempotent: bool, acks: int) -> None:
    made = ProducerConfig.from_options(given)
    assert (made.idempotent, made.required_acks) == (idempotent, acks)


def test_a_config_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        ProducerConfig().linger_ms = 3  # type: ignore[misc]


def test_properties_use_dotted_names_and_text() -> None:
    made = ProducerConfig.from_properties(
        {"linger.ms": "7", "compression.type": "zstd", "enable.idempotence": "false", "acks": "1"}, linger_ms=9
    )
    assert (made.linger_ms, made.compression_type, made.enable_idempotence, made.required_acks) == (9, "zstd", False, 1)


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"linger.mss": "7"}, "did you mean 'linger.ms'"),
        ({"linger.ms": "soon"}, "whole number"),
        ({"enable.idempotence": "maybe"}, "true or false"),
    ],
)
def test_wrong_properties_name_the_dotted_option(properties: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        ProducerConfig.from_properties(properties)


def test_a_properties_file_is_read_as_java_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    lines = [
        "# brokers",
        "! more",
        "",
        "bootstrap.servers = one:1,\\",
        "    two:2",
        "fetch.min.bytes: 10",
        "client.id caf\\u00e9\\ 1  ",
        "group.id=caf\xe9",
        "check.crcs=false \t",
    ]
    path.write_text("\n".join(lines), encoding="iso-8859-1")
    made = ConsumerConfig.from_properties(path)
    assert (made.bootstrap_servers, made.fetch_min_bytes) == ("one:1,two:2", 10)
    assert (made.client_id, made.group_id, made.check_crcs) == ("caf\xe9 1", "caf\xe9", False)


def test_a_properties_file_with_a_wrong_escape_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("fetch.min.bytes=10\nclient.id=\\u12\n")
    with pytest.raises(ConfigError, match=r"client\.properties: line 2: \\u is followed by four hexadecimal digits"):
        ConsumerConfig.from_properties(path)


def test_a_word_that_is_no_option_is_named_even_without_a_separator(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("fetch.min.bytes=10\nwhat is this\n")
    with pytest.raises(ConfigError, match=r"^there is no option 'what'"):
        ConsumerConfig.from_properties(path)


@pytest.mark.parametrize(
    ("protocol", "option", "value"),
    [
        ("classic", "group_remote_assignor", "uniform"),
        ("consumer", "session_timeout_ms", 45_000),
        ("consumer", "heartbeat_interval_ms", 3_000),
        ("consumer", "partition_assignment_strategy", ["range"]),
    ],
)
def test_options_of_the_other_group_protocol_are_refused_even_at_their_defaults(
    protocol: str, option: str, value: object
) -> None:
    with pytest.raises(ConfigError, match=f'^{option} cannot be set with group_protocol="{protocol}"'):
        ConsumerConfig.from_options({"group_id": "g", "group_protocol": protocol, option: value})
    with pytest.raises(ConfigError, match=option):
        ConsumerConfig.from_properties({"group.id": "g", "group.protocol": protocol}, **{option: value})


@pytest.mark.parametrize("interval", [6_000, 6_001])
def test_a_heartbeat_that_comes_after_the_session_is_refused(interval: int) -> None:
    with pytest.raises(
        ConfigError, match=rf"^heartbeat_interval_ms \({interval}\) must be less than session_timeout_ms"
    ):
        ConsumerConfig(group_id="g", session_timeout_ms=6_000, heartbeat_interval_ms=interval)
    ConsumerConfig(group_id="g", session_timeout_ms=6_000, heartbeat_interval_ms=5_999)


def test_automatic_commits_of_no_group_are_refused_if_asked_for() -> None:
    with pytest.raises(ConfigError, match=r"^enable_auto_commit=True needs a group_id: "):
        ConsumerConfig.from_options({"enable_auto_commit": True})
    with pytest.raises(ConfigError, match="needs a group_id"):
        ConsumerConfig.from_properties({"enable.auto.commit": "true"})
    ConsumerConfig.from_options({"enable_auto_commit": False})
    ConsumerConfig.from_options({"enable_auto_commit": True, "group_id": "g"})


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ä", pytest.param("i" * 250, id="too long")])
def test_a_static_members_name_is_one_as_topics_have_them(name: str) -> None:
    with pytest.raises(ConfigError, match=r"^group_instance_id must be a valid name"):
        ConsumerConfig(group_id="g", group_instance_id=name)
    ConsumerConfig(group_id="g", group_instance_id="Host-7.rack_2")


def test_a_static_member_needs_a_group() -> None:
    with pytest.raises(ConfigError, match="needs a group_id"):
        ConsumerConfig(group_instance_id="i")
    with pytest.raises(ConfigError, match=r"^group_id must not be empty"):
        ConsumerConfig(group_id="")


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        pytest.param(Audit(), "an interceptor has on_consume, on_commit or both, not <", id="a producer's"),
        pytest.param(Audit, r"an interceptor must be an object, not the class Audit\. Did you mean", id="class"),
    ],
)
def test_an_interceptor_of_a_consumer_sees_records_or_commits(wrong: typing.Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        ConsumerConfig.from_options({"interceptors": [wrong]})
