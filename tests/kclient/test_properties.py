"""Properties files are read as Java reads them, by clients and by the broker."""

from __future__ import annotations

import pytest

from kclient._properties import parse_properties


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("a=1\nb = 2\r\nc:3\rd 4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("# no\n  ! no\n\n \t\f\n  a=1", {"a": "1"}),
        ("a=", {"a": ""}),
        ("a", {"a": ""}),
        ("=b", {"": "b"}),
        ("a  =  b c  ", {"a": "b c  "}),
        ("a = = b", {"a": "= b"}),
        ("a:=b", {"a": "=b"}),
        ("a=1,\\\n    2,\\\r\n\t3", {"a": "1,2,3"}),
        ("a=1\\\n# 2", {"a": "1# 2"}),
        ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("# continues \\\na=1", {"a": "1"}),
        ("a=1\\", {"a": "1"}),
        (r"a\ b\:c\=d=e", {"a b:c=d": "e"}),
        (r"a=\t\n\r\f\q\\", {"a": "\t\n\r\fq\\"}),
        (r"a=\u00e9\uD83D\uDE00", {"a": "\u00e9\U0001f600"}),
        ("a=1\na=2", {"a": "2"}),
        ("listeners=PLAINTEXT://:9092,CONTROLLER://:9093", {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"}),
    ],
)
def test_a_property_is_what_java_makes_of_it(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


def test_an_escape_that_means_nothing_names_its_line() -> None:
    with pytest.raises(ValueError, match=r"line 3: \\u is followed by four"):
        parse_properties("a=1\n\nb=\\\n\\u12")
