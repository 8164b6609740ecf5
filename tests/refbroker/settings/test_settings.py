"""Settings: which there are, what values they can have, and which value applies."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from kclient.errors import ConfigError, InvalidConfigurationError
from refbroker.config import BrokerConfig, read_properties
from refbroker.log import LogConfig
from refbroker.security.authorizer import STANDARD_AUTHORIZER
from refbroker.settings import Source, Type, broker_settings, broker_values, nearest, topic_settings, topic_values
from refbroker.settings.documentation import STORED_ONLY, documentation
from refbroker.settings.effective import BrokerLayers, topic_texts
from refbroker.settings.topic_table import BROKER_SYNONYMS
from refbroker.testing import RefBroker


def test_every_default_is_a_value_the_setting_can_have() -> None:
    for setting in (*broker_settings().values(), *topic_settings().values()):
        # Kafka's own defaults break its rule for the lists that must not be empty.
        if setting.default is not None and not (setting.type is Type.LIST and not setting.default):
            setting.check(setting.default)


def test_every_synonym_exists_and_has_the_same_default() -> None:
    for name, synonyms in BROKER_SYNONYMS.items():
        first, factor = synonyms[-1]
        default = broker_settings()[first].default
        assert default is not None
        topic_default = topic_settings()[name].default
        assert topic_default == (default if factor == 1 else str(int(default) * factor)), name


def test_the_log_takes_every_default_of_a_topic() -> None:
    values = {name: found.value for name, found in topic_values({}, BrokerLayers()).items() if found.value is not None}
    assert LogConfig().with_topic_configs(values) == LogConfig()


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("retention.ms", "abc", "Invalid value abc for configuration retention.ms: Not a number of type LONG"),
        ("flush.ms", "99999999999999999999", "Not a number of type LONG"),
        ("segment.bytes", "1e6", "Not a number of type INT"),
        ("min.insync.replicas", "0", "Value must be at least 1"),
        ("min.cleanable.dirty.ratio", "1.5", "Value must be no more than 1"),
        ("min.cleanable.dirty.ratio", "x", "Not a number of type DOUBLE"),
        ("compression.gzip.level", "44", "Value must be between 1 and 9 or equal to -1"),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("compression.lz4.level", "0", "Value must be at least 1"),
        ("compression.zstd.level", "23", "Value must be no more than 22"),
        ("compression.type", "brotli", "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"),
        ("cleanup.policy", "delete,x", "String must be one of: compact, delete"),
        ("cleanup.policy", "delete,,compact", "values must not be empty"),
        ("leader.replication.throttled.replicas", "0:1,x", "must be the literal '*' or a list of replicas"),
        ("preallocate", "yes", "Expected value to be either true or false"),
    ],
)
def test_a_value_out_of_type_or_range_is_refused_in_kafkas_words(name: str, value: str, text: str) -> None:
    with pytest.raises(InvalidConfigurationError) as caught:
        topic_settings()[name].check(value)
    assert text in caught.value.message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", "-1"),
        ("compression.gzip.level", "-1"),
        ("compression.gzip.level", "9"),
        ("cleanup.policy", "compact, delete"),
        ("cleanup.policy", "compact,compact"),
        ("cleanup.policy", ""),
        ("leader.replication.throttled.replicas", "*"),
        ("leader.replication.throttled.replicas", "0:1,12:3"),
        ("preallocate", "TRUE"),
        ("min.cleanable.dirty.ratio", "0.25"),
    ],
)
def test_a_value_in_range_is_taken(name: str, value: str) -> None:
    topic_settings()[name].check(value)


def test_a_password_does_not_show_in_an_error() -> None:
    setting = next(setting for setting in broker_settings().values() if setting.sensitive)
    setting.check("secret")
    assert setting.type is Type.PASSWORD


def test_the_topics_own_value_goes_before_the_brokers() -> None:
    layers = BrokerLayers(
        {"log.segment.bytes": "2000000"}, {"log.segment.bytes": "3000000"}, {"log.segment.bytes": "4000000"}
    )
    found = topic_values({"segment.bytes": "1048576"}, layers)["segment.bytes"]
    assert (found.value, found.source) == ("1048576", Source.TOPIC)
    assert [(one.value, one.source) for one in found.synonyms] == [
        ("1048576", Source.TOPIC),
        ("2000000", Source.DYNAMIC_BROKER),
        ("3000000", Source.DYNAMIC_DEFAULT_BROKER),
        ("4000000", Source.STATIC_BROKER),
        ("1073741824", Source.DEFAULT),
    ]
    assert topic_values({}, layers)["segment.bytes"].source is Source.DYNAMIC_BROKER
    assert broker_values(layers)["log.segment.bytes"].value == "2000000"


def test_hours_become_milliseconds_and_milliseconds_go_first() -> None:
    assert topic_values({}, BrokerLayers(static={"log.roll.hours": "2"}))["segment.ms"].value == "7200000"
    both = BrokerLayers(static={"log.roll.hours": "2", "log.roll.ms": "5000"})
    assert topic_values({}, both)["segment.ms"].value == "5000"
    endless = BrokerLayers(static={"log.retention.minutes": "-1"})
    assert topic_values({}, endless)["retention.ms"].value == "-1"


def test_values_alone_are_those_that_are_described() -> None:
    layers = BrokerLayers({"log.retention.ms": "-5"}, {"log.segment.bytes": " +3000000 "}, {"log.roll.hours": "2"})
    topic = {"cleanup.policy": "compact, compact", "preallocate": "TRUE"}
    described = {name: found.value for name, found in topic_values(topic, layers).items() if found.value is not None}
    assert topic_texts(topic, layers) == described
    assert (described["retention.ms"], described["segment.bytes"], described["segment.ms"]) == (
        "-1",
        "3000000",
        "7200000",
    )


def test_an_unknown_setting_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"no setting log\.retentoin\.ms; did you mean log\.retention\.ms\?"):
        BrokerConfig({"log.retentoin.ms": "5"})
    with pytest.raises(ConfigError, match=r"no setting xyzzy$"):
        BrokerConfig({"xyzzy": "5"})
    with pytest.raises(ConfigError, match=r"num\.partitions: Value must be at least 1"):
        BrokerConfig({"num.partitions": "0"})


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("transactional.id.timeout.ms", "transactional.id.expiration.ms"),
        ("transaction.timeout.ms", "transaction.max.timeout.ms"),
        ("offsets.retention.ms", "offsets.retention.minutes"),
        ("log.segment.size", "log.segment.bytes"),
        ("max.message.bytes", "message.max.bytes"),
        ("segment.ms", "log.roll.ms"),
        ("delete.topics.enable", "delete.topic.enable"),
        ("default.partitions", "num.partitions"),
        ("log_dirs", "log.dirs"),
    ],
)
def test_an_unknown_setting_names_the_one_that_is_meant(name: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=rf"no setting {re.escape(name)}; did you mean {re.escape(meant)}\?$"):
        BrokerConfig({name: "5"})


@pytest.mark.parametrize("name", ["inter.zone.copy", "my.plugin.setting", "host.name"])
def test_a_setting_like_no_other_gets_no_hint(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"no setting {re.escape(name)}$"):
        BrokerConfig({name: "5"})


def test_every_setting_is_found_by_its_name_with_two_letters_exchanged() -> None:
    names = broker_settings()
    for name in names:
        mistyped = name[:2] + name[3] + name[2] + name[4:]
        if mistyped not in names and "." not in name[:4]:
            assert nearest(mistyped, names) == name


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"node.id": "1", "broker.id": "2"}, "You must set `node.id` to the same value as `broker.id`"),
        ({"log.retention.minutes": "0"}, "log.retention.ms must be unlimited"),
        ({"log.roll.ms": "0"}, "log.roll.ms must be greater than or equal to 1"),
        ({"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms must be greater than or equal to 0"),
        ({"log.cleaner.threads": "200"}, "must be at least 1MB per cleaner thread"),
        ({"replica.fetch.wait.max.ms": "60000"}, "replica.socket.timeout.ms should always be at least"),
        ({"queued.max.request.bytes": "100"}, "must be larger or equal to socket.request.max.bytes"),
        ({"max.connections.per.ip.overrides": "127.0.0.1"}, 'For input string: "127.0.0.1"'),
        ({"connections.max.idle.ms": "100"}, "connection.failed.authentication.delay.ms=100 should always be less"),
        ({"cordoned.log.dirs": "/a,*"}, "it must not contain other values"),
        ({"group.consumer.session.timeout.ms": "1000"}, "group.consumer.min.session.timeout.ms"),
        ({"group.share.max.delivery.count.limit": "5", "group.share.delivery.count.limit": "6"}, "less than or equal"),
    ],
)
def test_a_broker_does_not_start_with_settings_that_do_not_go_together(settings: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig(settings)
    assert text in caught.value.message


def test_a_node_has_its_number_under_both_names() -> None:
    for given in ({}, {"node.id": "1"}, {"broker.id": "1"}, {"node.id": "1", "broker.id": "1"}):
        config = BrokerConfig(given)
        assert (config.node_id, config.text("node.id"), config.text("broker.id")) == (1, "1", "1")


def test_settings_that_are_only_stored_are_logged_together(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        config = BrokerConfig({"num.network.threads": "2", "num.partitions": "3", "background.threads": "4"})
        assert caplog.records == []
        config.log_stored()
    assert [record.getMessage() for record in caplog.records] == [
        "stored, but not acted on by this broker yet: background.threads, num.network.threads"
    ]


def test_what_is_acted_on_is_explained_and_the_rest_says_that_it_is_not() -> None:
    for setting in broker_settings().values():
        assert (documentation(setting, topic=False) == STORED_ONLY) is not setting.acted_on, setting.name
    for setting in topic_settings().values():
        assert (documentation(setting, topic=True) == STORED_ONLY) is not setting.acted_on, setting.name


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"authorizer.class.name": "com.example.Mine"}, "com.example.Mine: this broker has only org.apache.kafka"),
        ({"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "anne"}, "anne is not a principal"),
        ({"authorizer.class.name": STANDARD_AUTHORIZER, "allow.everyone.if.no.acl.found": "no"}, "neither true nor"),
        (
            {"principal.builder.class": "com.example.Mine"},
            "principal.builder.class=com.example.Mine: this broker runs no",
        ),
        ({"ssl.engine.factory.class": "com.example.Mine"}, "ssl.engine.factory.class=com.example.Mine: this broker"),
    ],
    ids=["class", "super user", "default", "principals", "tls"],
)
def test_settings_of_security_that_cannot_be_obeyed_are_refused(settings: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        BrokerConfig(settings).check_runnable()
    with pytest.raises(ConfigError, match=text):
        RefBroker(settings=settings)


@pytest.mark.parametrize(
    "name",
    [
        "connections.max.reauth.ms",
        "listener.name.outside.connections.max.reauth.ms",
        "listener.name.outside.scram-sha-256.connections.max.reauth.ms",
        "listener.name.outside.oauthbearer.connections.max.reauth.ms",
    ],
)
def test_values_of_listeners_and_mechanisms_are_checked_at_once(name: str) -> None:
    with pytest.raises(ConfigError, match=f"Invalid value soon for configuration {name}: Not a number of type LONG"):
        BrokerConfig({name: "soon"})


def test_settings_of_an_authorizer_have_no_effect_without_one(caplog: pytest.LogCaptureFixture) -> None:
    BrokerConfig({"super.users": "User:anne"}).log_stored()
    assert "super.users" in caplog.text
    caplog.clear()
    BrokerConfig({"super.users": "User:anne", "authorizer.class.name": STANDARD_AUTHORIZER}).log_stored()
    assert "super.users" not in caplog.text


def test_a_properties_file_gives_settings(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "server.properties"
    file.write_text("# a comment\n\nnum.partitions = 3\nlog.dirs=/a,/b \nssl.key.password=secret \t\n")
    settings = read_properties(file)
    assert settings == {"num.partitions": "3", "log.dirs": "/a,/b", "ssl.key.password": "secret"}
    assert BrokerConfig(settings).data_directories == [Path("/a"), Path("/b")]
    file.write_text(
        "super.users=User:anne\nallow.everyone.if.no.acl.found=true\nlistener.name.a.ssl.client.auth=none\n"
    )
    assert len(read_properties(file)) == 3
    file.write_text("num.partitons=3\n")
    with pytest.raises(
        ConfigError, match=r"server\.properties: the broker has no setting .*did you mean num\.partitions"
    ):
        read_properties(file)
    file.write_text("num.partitions=\\u00g0\n")
    with pytest.raises(ConfigError, match=r"server\.properties: line 1: "):
        read_properties(file)
    with pytest.raises(ConfigError, match="could not read"):
        read_properties(tmp_path / "none")


def test_settings_of_plugins_and_of_older_kafkas_are_omitted_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "server.properties"
    others = ("my.plugin.setting", "zookeeper.max.in.flight.requests", "control.plane.listener.name")
    file.write_text("".join(f"{name}=1\n" for name in others) + "listener.name.internal.ssl.client.auth=none\n")
    with caplog.at_level(logging.WARNING):
        settings = read_properties(file)
    assert settings == {"listener.name.internal.ssl.client.auth": "none"}
    assert BrokerConfig(settings).node_id == 1
    assert [record.args[1] for record in caplog.records if isinstance(record.args, tuple)][: len(others)] == [*others]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"process.roles": "controller"}, "process.roles=controller has no place here"),
        ({"controller.quorum.voters": "1@a:1,2@b:1,3@c:1"}, "this broker is one node"),
        ({"process.roles": "broker,controller", "controller.quorum.voters": "2@a:1"}, "the node id 1 must be included"),
    ],
)
def test_a_file_for_a_node_of_a_larger_cluster_is_an_error(settings: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        BrokerConfig(settings)
    BrokerConfig({"process.roles": "controller,broker", "node.id": "7", "controller.quorum.voters": "7@a:1"})
