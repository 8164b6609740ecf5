"""The rules that make a user's name of a Kerberos principal, as in Kafka."""

from __future__ import annotations

import pytest

from kclient.errors import ConfigError
from refbroker.security.java_patterns import NAME_LIMIT
from refbroker.security.kerberos_names import KerberosNames
from refbroker.security.principals import NoMatchingRuleError
from tests.support.golden_data import golden_rows

REALM = "EXAMPLE.COM"


def user(principal: str, *rules: str) -> str | None:
    """Return the name by the rules; None if there is no name."""
    try:
        return KerberosNames(rules, REALM).user(principal)
    except NoMatchingRuleError:
        return None


def test_rules_make_the_names_that_kafka_makes() -> None:
    rows = golden_rows("kerberos_names")
    assert len(rows) == 400
    for row in rows:
        assert user(row["principal"], *row["rules"]) == row["user"], row


@pytest.mark.parametrize(
    ("rule", "principal", "name"),
    [
        ("DEFAULT", "anne@EXAMPLE.COM", "anne"),
        ("DEFAULT", "kafka/broker-1@EXAMPLE.COM", "kafka"),
        ("DEFAULT", "anne@OTHER.COM", None),
        ("RULE:[1:$1@$0](.*@OTHER.COM)s/@.*//", "anne@OTHER.COM", "anne"),
        ("RULE:[2:$1-$2](web-.*)s/-/_/", "web/a-b@EXAMPLE.COM", "web_a-b"),
        ("RULE:[2:$1-$2](web-.*)s/-/_/g", "web/a-b@EXAMPLE.COM", "web_a_b"),
        ("RULE:[1:$1]/U", "anne@EXAMPLE.COM", "ANNE"),
        ("RULE:[1:$1]/L", "Anne@EXAMPLE.COM", "anne"),
        (r"RULE:[1:$1]s/(.)(.*)/$2$1/", "anne@EXAMPLE.COM", "nnea"),
        ("RULE:[1:$1@$0]", "anne@EXAMPLE.COM", None),
    ],
)
def test_a_rule_makes_a_name(rule: str, principal: str, name: str | None) -> None:
    assert user(principal, rule) == name


def test_the_first_rule_that_applies_makes_the_name() -> None:
    rules = ("RULE:[2:$2](broker.*)", "RULE:[2:$1](web)", "DEFAULT")
    assert [user(f"{name}@EXAMPLE.COM", *rules) for name in ("kafka/broker-1", "web/a", "anne")] == [
        "broker-1",
        "web",
        "anne",
    ]


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("ANNE", "'ANNE' must be DEFAULT or RULE"),
        ("RULE:[1:$1]x", "must be DEFAULT or RULE"),
        ("RULE:[:$1]", "must be DEFAULT or RULE"),
        ("RULE:[1:$2]", r"'\$2' is no component"),
        ("RULE:[1:$]", r"'\$' is no component"),
        ("RULE:[1:$1](+)", r"'\+' is not a pattern"),
        ("RULE:[1:$1]s/(/x/", r"'\(' is not a pattern"),
        ("RULE:[1:$1]s/a/$1/", r"'\$1' is no group"),
        ("RULE:[1:$1]s/(a)/$2/", r"'\$2' is no group"),
    ],
)
def test_malformed_rules_are_refused_at_the_start(rule: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        KerberosNames([rule], REALM)


@pytest.mark.parametrize("principal", ["a/b/c@R", "a@b@c", "a" * (NAME_LIMIT + 1)], ids=["three", "realms", "long"])
def test_a_malformed_principal_has_no_name(principal: str) -> None:
    assert user(principal, "DEFAULT", "RULE:[1:x]") is None


def test_a_pattern_over_which_others_backtrack_takes_no_time() -> None:
    names = KerberosNames(["RULE:[1:$1](a*a*a*a*a*b)", "DEFAULT"], REALM)
    assert names.user(f"{'a' * 4000}@{REALM}") == "a" * 4000
