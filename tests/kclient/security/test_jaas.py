"""`sasl.jaas.config` in Java's syntax."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kclient.errors import ConfigError
from kclient.security.jaas import parse_jaas
from kclient.security.secret import Secret

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def parse(text: str) -> tuple[str, dict[str, str]]:
    module = parse_jaas(Secret(text), "sasl.jaas.config")
    return module.name, {name: value.reveal() for name, value in module.options.items()}


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f'{PLAIN} required username="alice" password="a b";', {"username": "alice", "password": "a b"}),
        (
            f"{PLAIN} REQUIRED\n  username=alice // who\n  password='x;y=z' ;",
            {"username": "alice", "password": "x;y=z"},
        ),
        (f'{PLAIN} optional a="q\\"u\\\\o" /* b="c" */ d = "\\n";', {"a": 'q"u\\o', "d": "\n"}),
        # As StreamTokenizer reads escapes: octal numbers have at most three digits, up to 377.
        (f'{PLAIN} required a="\\a\\v\\101\\7x\\400\\8";', {"a": "\a\vA\7x 08"}),
        (f"{PLAIN} required a='==' b=\"=;\" c=\"=\" d=';';", {"a": "==", "b": "=;", "c": "=", "d": ";"}),
        (f"{PLAIN} required;", {}),
        # A slash begins a comment, and a string ends with its line.
        (f"{PLAIN} required a=b/c;d\n e='f\ng=h;", {"a": "b", "e": "f", "g": "h"}),
        (f"{PLAIN} required a=_b-1.c d=$e f=é;", {"a": "_b-1.c", "d": "$e", "f": "é"}),
        (f"'{PLAIN}' 'required' 'a b'=c;", {"a b": "c"}),
    ],
    ids=["quoted", "words", "escapes", "numbers", "signs", "none", "lines", "letters", "strings"],
)
def test_options_of_a_module(text: str, options: dict[str, str]) -> None:
    assert parse(text) == ("PlainLoginModule", options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "must have the form", id="nothing"),
        pytest.param(PLAIN, "must have the form", id="module"),
        pytest.param(f"{PLAIN} required username=alice", "must have the form", id="no end"),
        pytest.param(f"{PLAIN} needed username=alice;", "must have the form", id="flag"),
        pytest.param(f"{PLAIN} required; {PLAIN} required;", "one login module, not several", id="several"),
        pytest.param(f'{PLAIN} required username "secret";', "option 1 of the login module is not NAME=", id="sign"),
        pytest.param(f"{PLAIN} required a=b password= ;", "option 2 of the login module is not NAME=", id="value"),
        pytest.param(f'{PLAIN} required password="secret;', "mark at character 75 is not closed", id="quotation"),
        pytest.param(f"{PLAIN} required a=secret@b;", "option 2 of the login module is not NAME=", id="at"),
        pytest.param(f"{PLAIN} required a=/secret;\n;", "option 1 of the login module is not NAME=", id="path"),
        pytest.param(f"{PLAIN} required a=7;", 'NAME="VALUE"; only words need no quotation marks', id="number"),
        pytest.param(f"{PLAIN} required a=-secret;", "option 1 of the login module", id="hyphen"),
        pytest.param(f"{PLAIN} required a=\\secret;", "option 1 of the login module", id="backslash"),
    ],
)
def test_malformed_configs_are_refused_without_their_values(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        parse(text)
    assert "secret" not in str(caught.value)
    assert str(caught.value).startswith("sasl.jaas.config")


@given(st.text(alphabet="ab=;\"'\\/* \n", max_size=40))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        parse(f"{PLAIN} required {text}")
    except ConfigError as error:
        assert error.message.startswith("sasl.jaas.config")  # noqa: PT017 - valid text is fine as well


ONE_LINE = st.text(st.characters(exclude_characters="\n\r"), max_size=12)


@given(st.dictionaries(st.from_regex(r"[a-z_][a-z_.]{0,7}", fullmatch=True), ONE_LINE, max_size=4))
def test_quoted_values_come_back(options: dict[str, str]) -> None:
    def quoted(value: str) -> str:
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'

    text = " ".join(f"{name}={quoted(value)}" for name, value in options.items())
    assert parse(f"{PLAIN} required {text};") == ("PlainLoginModule", options)
