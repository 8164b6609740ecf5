"""What is a regular expression: as re2j 1.8 has it, whose answers these are."""

from __future__ import annotations

import pytest

from refbroker.regex import RegexError, compile_regex
from refbroker.regex.syntax import NESTING_LIMIT

RE2J = r"""
[a                  missing closing ]
[]                  missing closing ]
[^]                 missing closing ]
[\]                 missing closing ]
[[:                 missing closing ]
(                   missing closing )
(?i:a               missing closing )
)                   regexp/syntax: internal error
(a))                regexp/syntax: internal error
*a                  missing argument to repetition operator
{1}                 missing argument to repetition operator
a|*                 missing argument to repetition operator
(*)                 missing argument to repetition operator
(?i)*               missing argument to repetition operator
\Q\E*               missing argument to repetition operator
a**                 invalid nested repetition operator
a++                 invalid nested repetition operator
a???                invalid nested repetition operator
a*?*                invalid nested repetition operator
a{3}{4}             invalid nested repetition operator
a{*                 invalid nested repetition operator
a{1001}             invalid repeat count
a{2,1}              invalid repeat count
x{999999999}        invalid repeat count
\                   trailing backslash at end of expression
\1                  invalid escape sequence
\7                  invalid escape sequence
\8                  invalid escape sequence
\Z                  invalid escape sequence
\C                  invalid escape sequence
\E                  invalid escape sequence
\e                  invalid escape sequence
\xg                 invalid escape sequence
\x4                 invalid escape sequence
\x{110000}          invalid escape sequence
[a-\d]              invalid escape sequence
[\Q]\E]             invalid escape sequence
[z-a]               invalid character class range
[[:foo:]]           invalid character class range
[[:]                invalid character class range
\pX                 invalid character class range
\p{Cn}              invalid character class range
\p                  invalid character class range
\p{                 invalid character class range
(?P<a               invalid named capture
(?P<>b)             invalid named capture
(?P<n-a>b)          invalid named capture
(?<=a)              invalid named capture
(?<!a)              invalid named capture
(?P<n>a)(?P<n>b)    duplicate capture group name
(?i                 invalid or unsupported Perl syntax
(?=a)               invalid or unsupported Perl syntax
(?z)                invalid or unsupported Perl syntax
(?-)                invalid or unsupported Perl syntax
(?i-)               invalid or unsupported Perl syntax
(?i--s)             invalid or unsupported Perl syntax
(?P=n)              invalid or unsupported Perl syntax
(?#c)               invalid or unsupported Perl syntax
(?>a)               invalid or unsupported Perl syntax
(?|a)               invalid or unsupported Perl syntax
(?'n'a)             invalid or unsupported Perl syntax
"""
"""Expressions that re2j refuses, and its description of the error."""

ACCEPTED = r"""
a(?i)*  a*(?i)*  (?<n>a)  (?P<1a>b)  []a]  [^]a]  [a-]  [--a]  [\d-z]  [a-z-9]  [[:^alpha:]]  [[:alpha]  a{,3}  a{
x{1,  x{01}  x{1,01}  x{,}  x{0}  ^*  \b+  (?)  (?i-s)a  (?i-s:a)  \_  \%  \é  \07  \08  \0  \77  \400  a*?
(x{2}){3}  (?U)a  (?s).
(?m)^$  a\Q\E*  \Qa  \Qa.b\E+  \x41  \a\f\n\r\t\v  a\z  \p{^L}  \PN  \pL  \p{Any}  \p{C}  [a&&b]
"""
"""Expressions that re2j accepts and that look as if they might be wrong."""


def refusals() -> list[tuple[str, str]]:
    lines = (line.split(None, 1) for line in RE2J.strip().splitlines())
    return [(expression, reason) for expression, reason in lines]


@pytest.mark.parametrize(("expression", "reason"), refusals(), ids=[expression for expression, _ in refusals()])
def test_what_is_not_an_expression_is_described_as_kafka_does(expression: str, reason: str) -> None:
    with pytest.raises(RegexError) as raised:
        compile_regex(expression)
    assert str(raised.value) == reason


@pytest.mark.parametrize("expression", ACCEPTED.split())
def test_what_kafka_accepts_is_accepted(expression: str) -> None:
    compile_regex(expression)


@pytest.mark.parametrize("name", ["Greek", "Foo"])
def test_a_class_that_may_be_a_script_is_refused_with_the_reason(name: str) -> None:
    expected = f"^invalid character class range: {name} is no category, and scripts are not implemented$"
    with pytest.raises(RegexError, match=expected):
        compile_regex(f"\\p{{{name}}}")


@pytest.mark.parametrize("expression", ["((a{100}){100}){100}", "(ab{1000}){3}" * 2, "(((a{1000}){1000}){1000}){1000}"])
def test_an_expression_that_takes_too_much_memory_is_refused(expression: str) -> None:
    with pytest.raises(RegexError, match=r"^the expression is too large$"):
        compile_regex(expression)


@pytest.mark.parametrize("expression", ["((){1000}){1000}", "(((){1000}){1000}){40}", "((a{0}){1000}){1000}"])
def test_an_expression_that_repeats_nothing_for_long_is_refused(expression: str) -> None:
    with pytest.raises(RegexError, match=r"^the expression is too large$"):
        compile_regex(expression)


def test_groups_within_each_other_have_a_limit() -> None:
    for opening in ("(", "(?:", "(?:(?:x)*"):
        depth = NESTING_LIMIT // opening.count("(") - 1
        expression = f"{opening * depth}a{')*' * depth}"
        assert compile_regex(expression).fullmatch("a" if opening[-1] in "(:" else "xxa")
        with pytest.raises(RegexError, match="within each other"):
            compile_regex("(" * (NESTING_LIMIT + 1) + "a" + ")" * (NESTING_LIMIT + 1))
