"""The rules that make a principal's name, as in Kafka."""

from __future__ import annotations

import pytest

from kclient.errors import ConfigError
from refbroker.security.java_patterns import NAME_LIMIT
from refbroker.security.principals import ANONYMOUS, NoMatchingRuleError, PrincipalMapper
from tests.support.golden_data import golden_rows


def test_rules_make_the_names_that_kafka_makes() -> None:
    rows = [row for row in golden_rows("principals") if row["kind"] == "rule"]
    assert len(rows) > 100
    for row in rows:
        mapper = PrincipalMapper(row["rules"])
        if row["name"] is None:
            with pytest.raises(NoMatchingRuleError):
                mapper.principal(row["subject"])
        else:
            assert mapper.principal(row["subject"]) == ("User", row["name"]), row


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", "CN=Alice,OU=Dev,O=Acme"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/", "Alice@Dev"),
        ("RULE:^CN=(.*?),.*$/$1/L,DEFAULT", "alice"),
        ("RULE:^CN=(?<name>.*?),.*$/${name}/U", "ALICE"),
        ("RULE:^UID=(.*)$/$1/, RULE:^CN=(.*?),.*$/$1$2/", "Alice$2"),
        (r"RULE:^CN=(.*?),.*$/\$1$10/", "$1Alice0"),
    ],
)
def test_the_first_rule_that_applies_makes_the_name(rules: str, name: str) -> None:
    assert str(PrincipalMapper(rules).principal("CN=Alice,OU=Dev,O=Acme")) == f"User:{name}"


@pytest.mark.parametrize(
    ("pattern", "name"),
    [(".*?", "-a-b-"), ("b?.*?", "-a--"), (".*", "--"), ("(a|b)*?", "-a-b-"), ("ab", "-")],
)
def test_no_match_begins_where_an_empty_one_ends(pattern: str, name: str) -> None:
    assert PrincipalMapper(f"RULE:{pattern}/-/").principal("ab").name == name


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ("ALICE", "'ALICE' must be DEFAULT or RULE"),
        ("RULE:a/b/X", "must be DEFAULT or RULE"),
        ("RULE:(/x/", r"'\(' is not a pattern"),
        ("RULE:.*/$1/", r"'\$1' is no group"),
        ("RULE:(.*)/${name}/", r"'\$\{name\}' is no group"),
        ("RULE:(.*)/$x/", r"'\$' is no group"),
        pytest.param("RULE:.*/$" + "0" * 5000 + "1/", r"' is no group", id="a number of 5,001 digits"),
        ("RULE:[[a]]/x/", "sets within sets are not implemented"),
        ("RULE:(?!CN=x).*/x/", r"\(\?!\.\.\.\) is not implemented"),
        ("RULE:(a*)*/x/", "a repetition of what may be empty is not implemented"),
        ("RULE:(a{1,999}){1,999}/x/", "too large; use fewer or smaller counted repetitions"),
    ],
)
def test_malformed_rules_are_refused_at_the_start(rules: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        PrincipalMapper(rules)


def test_a_very_long_subject_is_refused_before_any_pattern() -> None:
    with pytest.raises(NoMatchingRuleError, match="more than 4096 characters"):
        PrincipalMapper(r"RULE:(a|a)*b/x/").principal("a" * (NAME_LIMIT + 1))


@pytest.mark.parametrize(
    ("pattern", "subject"),
    [
        ("(a|a)*b", "a" * NAME_LIMIT),
        ("(a+)+b", "a" * NAME_LIMIT),
        (r"(\w+|\d+)*b", "1" * NAME_LIMIT),
        ("(.*),(.*),(.*),(.*),(.*),x", "," * NAME_LIMIT),
        ("CN=(.*?),OU=(.*?),O=(.*?),L=x", "CN=" + "\\,OU=\\,O=\\,L=" * 200),
    ],
    ids=["alternatives", "plus", "classes", "commas", "attributes"],
)
def test_a_pattern_over_which_others_backtrack_takes_no_time(pattern: str, subject: str) -> None:
    mapper = PrincipalMapper(f"RULE:{pattern}/x/,DEFAULT")
    assert mapper.principal(subject).name == subject


def test_usual_rules_make_names() -> None:
    rules = r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),.*$/$1@$2/L,RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/,DEFAULT"
    mapper = PrincipalMapper(rules)
    subject = "CN=kafka-1.kafka.svc.cluster.local,OU=Platform Engineering,O=Acme Incorporated,L=Berlin,ST=Berlin,C=DE"
    assert mapper.principal(subject).name == "kafka-1.kafka.svc.cluster.local@platform engineering"
    assert mapper.principal(f"OU=x,{subject}").name == "kafka"


def test_a_client_without_a_certificate_is_anonymous() -> None:
    assert str(ANONYMOUS) == "User:ANONYMOUS"
