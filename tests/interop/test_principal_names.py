"""The names of principals beside Kafka's: distinguished names, `ssl.principal.mapping.rules`, and Java's patterns.

KCLIENT_SECURITY_NAMES is the number of random cases of each kind. The unit tests read a sample of what Kafka makes from
tests/data/golden.
"""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path
from typing import Any

import pytest

from kclient.errors import ConfigError
from kclient.security.certificates import distinguished_name
from kclient.security.der import DerError, parse
from refbroker.regex import JavaRegex, RegexError
from refbroker.security.java_patterns import Replacement
from refbroker.security.principals import NoMatchingRuleError, PrincipalMapper
from tests.support.golden_data import golden_rows
from tests.support.kafka.jars import run_tool
from tests.support.patience import GUARD, PROCESS

PROGRAM = Path(__file__).with_name("java") / "PrincipalNames.java"
CASES = int(os.environ.get("KCLIENT_SECURITY_NAMES", "2000"))

pytestmark = pytest.mark.usefixtures("needs_kafka")

# Tags of DER: UTF8String, PrintableString, T61String, IA5String, BMPString, and one that is no string.
STRINGS = (0x0C, 0x0C, 0x13, 0x14, 0x16, 0x1E, 0x04)
KINDS = (
    b"\x55\x04\x03", b"\x55\x04\x06", b"\x55\x04\x07", b"\x55\x04\x08", b"\x55\x04\x0a", b"\x55\x04\x0b",
    b"\x55\x04\x09", b"\x09\x92\x26\x89\x93\xf2\x2c\x64\x01\x19", b"\x09\x92\x26\x89\x93\xf2\x2c\x64\x01\x01",
    b"\x55\x04\x05", b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x01", b"\x55\x04\x2a",
)  # fmt: skip
"""Object identifiers: those with a keyword, then serialNumber, emailAddress and givenName, which have none."""
TEXT = 'aZ0 ,=+<>#;"\\.*:?é😀\u200b\r'

PATTERNS = (
    *("CN=", "OU=", ",", "\\.", "x"),
    *("(.*)", "(.*?)", "([a-zA-Z]+)", "([^,]*)", "(?<n>.*?)", ".*", "(a|b)?", "[0-9]*"),
)
REPLACEMENTS = ("$1", "$1", "$0", "$12", "@", "é", "x", "\\$", "\\/", " ", "-")
SUBJECTS = (
    "CN=alice,OU=dev,O=acme",
    "CN=Bob.b,OU=ops",
    "CN=x",
    "OU=a,CN=b",
    "UID=İSTANBUL ß,CN=ΑΩ",
    "CN=a\\,b,OU=1\\+2",
    "",
    "CN=alice,OU=dev,O=acme,C=de",
)


def named_by_kafka(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the cases with the names that Kafka makes."""
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    output = run_tool(str(PROGRAM), input=lines, timeout=PROCESS + CASES / 500).stdout
    found = [json.loads(line) for line in output.split("\n") if line.startswith("{")]
    assert len(found) == len(cases), output[-2000:]
    return found


def encoded(tag: int, *parts: bytes) -> bytes:
    """Return a value of DER with up to 64 KiB."""
    contents = b"".join(parts)
    size = len(contents)
    length = bytes([size]) if size < 128 else bytes([0x81, size]) if size < 256 else b"\x82" + size.to_bytes(2, "big")
    return bytes([tag]) + length + contents


def random_subject(rng: random.Random) -> dict[str, Any]:
    def attribute() -> bytes:
        tag = rng.choice(STRINGS)
        text = "".join(rng.choices(TEXT, k=rng.randint(0, 8)))
        contents = text.encode("utf-16-be" if tag == 0x1E else "utf-8")
        return encoded(0x30, encoded(0x06, rng.choice(KINDS)), encoded(tag, contents))

    parts = [encoded(0x31, *(attribute() for _ in range(rng.choice((1, 1, 1, 2))))) for _ in range(rng.randint(0, 4))]
    return {"kind": "name", "der": encoded(0x30, *parts).hex()}


def random_rules(rng: random.Random) -> dict[str, Any]:
    rules = [_random_rule(rng) for _ in range(rng.randint(1, 3))]
    return {"kind": "rule", "rules": rng.choice((",", ", ", " ,")).join(rules), "subject": rng.choice(SUBJECTS)}


def _random_rule(rng: random.Random) -> str:
    if rng.random() < 0.15:
        return rng.choice(("DEFAULT", "", "default", "RULE:a", "RULE:^CN=(.*)$/$1/X"))
    pieces = rng.choices(PATTERNS, k=rng.randint(1, 5))
    if sum("(?<n>" in piece for piece in pieces) > 1:
        pieces = [piece for piece in pieces if "(?<n>" not in piece] or [".*"]
    pattern = rng.choice(("^", "")) + "".join(pieces) + rng.choice(("$", ""))
    replacement = "".join(rng.choices(REPLACEMENTS, k=rng.randint(0, 3)))
    if not any("(" in piece for piece in pieces):
        # Java refuses a number of a group if the pattern has none.
        replacement = replacement.replace("$12", "").replace("$1", "")
    elif "(?<n>" in pattern and rng.random() < 0.5:
        replacement += "${n}"
    return f"RULE:{pattern}/{replacement}/{rng.choice(('', 'L', 'U'))}"


ATOMS = (
    *("a", "b", "A", ".", "x", "\\.", "[ab]", "[^a]", "[a-c]", "[]a]", "[^]b-]", "[\\d.]", "[^\\W]", "[\\Da]", "\\w"),
    *("\\d", "\\s", "\\S", "\\v", "\\h", "\\H", "\\u0061", "\\x61", "\\0141", "\\x{61}", "\\t", "\\Qa.\\E", "\\p{Lu}"),
    *(
        "\\P{Lu}",
        "\\pL",
        "^",
        "$",
        "\\A",
        "\\z",
        "\\Z",
        "\\b",
        "\\B",
        "(?i)",
        "(?s)",
        "(?i:a)",
        "(?-i:a)",
        "é",
        "\\1",
        "}",
    ),
    *(
        "\\_",
        "\\-",
        "\\e",
        "\\cA",
        "(?=a)",
        "[a[b]]",
        "[a&&b]",
        "[&a]",
        "{",
        "]",
        "-",
        "\\R",
        "(?<n>a)",
        "[\\]]",
        "[a\\-z]",
    ),
)
REPEATS = ("*", "+", "?", "*?", "+?", "??", "{2}", "{0,2}", "{1,}", "{1,2}?", "{,2}", "*+", "**", "{02}", "{2,1}")


def random_pattern(rng: random.Random) -> dict[str, Any]:
    text = "".join(rng.choices("aabbAx1. é\n\r\u2028", k=rng.randint(0, 7)))
    return {"kind": "pattern", "pattern": _random_part(rng, 3), "text": text}


def _random_part(rng: random.Random, depth: int) -> str:
    if not depth or rng.random() < 0.2:
        return rng.choice(ATOMS[:6] if rng.random() < 0.7 else ATOMS)
    parts = [_random_part(rng, depth - 1) for _ in range(rng.randint(1, 3))]
    whole = rng.choice(("", "", "|")).join(parts)
    whole = rng.choice(("{}", "({})", "({})", "(?:{})")).format(whole)
    if rng.random() < 0.4:
        whole += rng.choice(REPEATS[:6] if rng.random() < 0.7 else REPEATS)
    return whole


def matched_here(case: dict[str, Any]) -> str:
    """Return what a pattern matches, in the form of the Java program.

    Raises:
        RegexError: it is no pattern, or has something that is not implemented.
    """
    regex = JavaRegex(case["pattern"])
    found = regex.fullmatch(case["text"])
    groups = [] if found is None else [found.group(number) for number in range(regex.groups + 1)]
    shown = "".join("null|" if group is None else f"{group}|" for group in groups)
    return shown + Replacement(regex, "<$0>", "test").apply(case["text"])


def named_here(case: dict[str, Any]) -> dict[str, Any]:
    """Return what a case becomes here, in the form of the Java program."""
    try:
        if case["kind"] == "name":
            return {"name": distinguished_name(parse(bytes.fromhex(case["der"])))}
        return {"name": PrincipalMapper(case["rules"]).principal(case["subject"]).name}
    except NoMatchingRuleError:
        return {"name": None}
    except (ConfigError, DerError) as error:
        return {"error": str(error)}


@pytest.mark.timeout(GUARD + CASES / 200)
def test_random_names_are_those_of_kafka(rng: random.Random) -> None:
    # One process for both kinds: it takes longer to start than to answer.
    cases = named_by_kafka([make(rng) for make in (random_subject, random_rules) for _ in range(CASES)])
    for of_kind in (cases[:CASES], cases[CASES:]):
        assert sum("error" not in case for case in of_kind) > CASES / 2
    different = [(case, here) for case in cases if (here := named_here(case)).get("name") != case.get("name", None)]
    assert not different, f"{len(different)} of {len(cases)}, the first ones: {different[:5]}"


@pytest.mark.timeout(GUARD + CASES / 200)
def test_random_patterns_match_as_in_java(rng: random.Random) -> None:
    cases = named_by_kafka([random_pattern(rng) for _ in range(CASES)])
    compared, different = 0, []
    for case in cases:
        try:
            here = matched_here(case)
        except RegexError:
            continue
        if re.search(r"\\[bB]", case["pattern"]) and not case["text"].isascii():
            # Letters beyond ASCII belong to words before Java 19.
            continue
        compared += 1
        if here != case.get("name"):
            different.append((case, here))
    assert not different, f"{len(different)} of {compared}, the first ones: {different[:5]}"
    accepted = sum("error" not in case for case in cases)
    assert compared > 0.6 * accepted, f"{compared} of the {accepted} that Java accepts"


def test_the_sample_of_the_unit_tests_is_what_kafka_makes() -> None:
    sample = golden_rows("principals")
    assert named_by_kafka(sample) == sample
