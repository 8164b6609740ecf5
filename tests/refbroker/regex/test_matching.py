"""What a regular expression matches, by examples and against RE2 itself."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refbroker.regex import RegexError, automaton, characters, compile_regex

EXAMPLES = [
    ("orders-.*", ["orders-", "orders-1"], ["my-orders-1", "orders"]),
    ("orders|payments-[a-z]+", ["orders", "payments-eu"], ["payments-", "orders|", "payments-EU"]),
    ("(a|b)*abb", ["abb", "ababb", "aabb"], ["ab", "abba", ""]),
    ("a{2,3}", ["aa", "aaa"], ["a", "aaaa"]),
    ("a{2,}", ["aa", "aaaa"], ["a"]),
    ("a{0}", [""], ["a"]),
    ("a{,3}", ["a{,3}"], ["aaa"]),
    ("(a*)*", ["", "aaa"], ["b"]),
    ("", [""], ["a"]),
    ("a|", ["", "a"], ["b"]),
    (".", ["a", "é", "😀"], ["", "\n", "ab"]),
    ("(?s).", ["\n"], [""]),
    ("(?i)Ab", ["ab", "AB", "aB"], ["b"]),
    ("(?i:a)b", ["ab", "Ab"], ["aB"]),
    ("a(?i)b|c", ["ab", "aB", "c", "C"], ["Ab"]),
    ("(a(?i)b)c", ["abc", "aBc"], ["abC"]),
    ("(?i)k", ["k", "K", "\u212a"], ["x"]),
    ("(?i)[^k]", ["x"], ["k", "K", "\u212a"]),
    ("(?i)ς", ["σ", "Σ", "ς"], ["s"]),
    ("(?i)i", ["i", "I"], ["ı", "İ"]),
    (r"\d+\.\w*\s", ["1.a ", "12._\t"], ["1.a", "a.b ", "1.é "]),
    (r"\D\W\S", ["a-b", "é☃x"], ["1-b", "aab", "a- "]),
    (r"[\d\-x]+", ["1-x"], ["y"]),
    ("[^a-c]", ["d", "\n", "😀"], ["a", "b", ""]),
    ("[]a]+", ["]a"], ["b"]),
    ("[[:alpha:][:^ascii:]]+", ["aé"], ["1"]),
    (r"\pL\p{Nd}\P{Lu}[\p{Zs}x]", ["é٣a ", "a1bx"], ["1aa ", "a1A "]),
    (r"\x41\x{1f600}\101\_", ["A😀A_"], ["a😀A_"]),
    (r"\Qa.b*\E+", ["a.b*", "a.b***"], ["aXb*"]),
    (r"\Aa\z", ["a"], ["a\n"]),
    ("^a$", ["a"], ["a\n"]),
    ("(?m)a$\n^b", ["a\nb"], ["ab"]),
    (r"\bab\b|a\Bb", ["ab"], ["a"]),
    (r"a\b-\bb", ["a-b"], ["a-"]),
    (r"\B", [""], ["a"]),
    (r"\b", [], ["", "a"]),
    ("(?P<name>a)(?<other>b)", ["ab"], ["a"]),
]


@pytest.mark.parametrize(("expression", "matching", "others"), EXAMPLES, ids=[repr(one[0])[1:-1] for one in EXAMPLES])
def test_an_expression_matches_whole_texts(expression: str, matching: list[str], others: list[str]) -> None:
    compiled = compile_regex(expression)
    for text in [*matching, *others] * 2:  # the second time from memory
        assert compiled.fullmatch(text) is (text in matching), text


def test_an_expression_that_takes_exponential_time_elsewhere_matches_at_once() -> None:
    text = "a" * 5_000
    assert not compile_regex("(a*)*b").fullmatch(text)
    assert not compile_regex("(a|aa)+(a|aa)+b").fullmatch(text)
    assert compile_regex("(a?){500}a{500}").fullmatch("a" * 500)


def test_the_orbits_of_ascii_are_those_of_the_table() -> None:
    table = {point: orbit for orbit in characters._orbits().values() for point in orbit}
    for point in range(0x80):
        assert characters.fold_orbit(point) == table.get(point, {point})


def test_a_repeated_set_is_searched_once_for_a_character() -> None:
    compiled = compile_regex(f"([{'ab' * 2_000}x]?){{1000}}")
    assert compiled.fullmatch("x" * 249)
    assert not compiled.fullmatch("x" * 249 + "y")


def test_what_is_remembered_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automaton, "CACHE_LIMIT", 20)
    compiled = compile_regex("(a|b)*a(a|b){5}")
    texts = [f"{number:b}".replace("0", "a").replace("1", "b") for number in range(64, 256)]
    assert [compiled.fullmatch(text) for text in texts] == [text[-6] == "a" for text in texts]
    assert len(compiled._states) <= 20


ALPHABET = "aAbkKſ-_1é\n"
PLAIN = [*"abkA1-_é.^$", "\\n", "\\.", "\\x61", "\\Qa.\\E", "\\b", "\\B", "\\A", "\\z"]
CLASSES = ["\\d", "\\W", "\\s", "\\pL", "\\P{Lu}", "[a-k]", "[^a]", "[\\d_]", "[^\\w-]", "[[:upper:]é]", "[[:^alpha:]]"]
FLAGS = ["(?i)", "(?s)", "(?m)", "(?-i)"]
ATOMS = st.sampled_from(PLAIN + CLASSES + FLAGS)
OPENING = st.sampled_from(["(", "(?:", "(?i:", "(?s-i:", "(?m:"])
OPERATORS = st.sampled_from(["*", "+", "?", "*?", "{2}", "{0,2}", "{1,}", "{,2}", "{0}"])
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map("".join),
        st.lists(inner, min_size=2, max_size=3).map("|".join),
        st.tuples(OPENING, inner).map(lambda parts: "".join(parts) + ")"),
        st.tuples(inner, OPERATORS).map("".join),
    ),
    max_leaves=8,
)


@given(EXPRESSIONS, st.lists(st.text(ALPHABET, max_size=6), min_size=3, max_size=6))
def test_it_matches_what_re2_matches(expression: str, texts: list[str]) -> None:
    re2 = pytest.importorskip("re2")
    options = re2.Options()
    options.log_errors = False
    try:
        reference = re2.compile(expression, options)
    except re2.error:
        reference = None
    try:
        compiled = compile_regex(expression)
    except RegexError:
        assert reference is None, expression
        return
    assert reference is not None, expression
    for text in texts:
        assert compiled.fullmatch(text) is (reference.fullmatch(text) is not None), (expression, text)


@given(st.text("ab*+?|()[]^-{}1,\\dpLQE:.$i<P>=", max_size=12))
def test_what_re2_refuses_is_refused(expression: str) -> None:
    re2 = pytest.importorskip("re2")
    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(expression, options)
        is_valid = True
    except re2.error:
        is_valid = False
    try:
        compile_regex(expression)
    except RegexError:
        # RE2 in C++ accepts what re2j, and so Kafka, does not: a name for two groups, \C, an operator behind a `{`
        # that stands for itself, and `[:]` in a class.
        assert not is_valid or re.search(r"\(\?P?<|\\C|\{[*+?{]|\[:\]", expression), expression
    else:
        assert is_valid or re.search(r"\\p", expression), expression
