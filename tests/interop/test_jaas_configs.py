"""Random texts of `sasl.jaas.config` that Kafka's client reads, and no others, are read here, with the same options.

KCLIENT_SECURITY_NAMES is the number of texts. Not compared: options whose name is a number or a sign, which Kafka keeps
without a name and this client refuses.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from kclient.errors import ConfigError
from kclient.security.jaas import parse_jaas
from kclient.security.secret import Secret
from tests.support.kafka.jars import run_tool
from tests.support.patience import GUARD, PROCESS

PROGRAM = Path(__file__).with_name("java") / "JaasConfigs.java"
CASES = int(os.environ.get("KCLIENT_SECURITY_NAMES", "2000"))
NAMELESS = "null"

pytestmark = pytest.mark.usefixtures("needs_kafka")

PIECES = (
    *("a", "b-c", "_x", "$y", "é", "漢", "😀", "A.b", "\xa0", "7", "-", "-7", "7a", ".", ".5", "1.2.3", "-.", "null"),
    *("=", "=", ";", "@", "/", "//", "/*", "*/", "*", "\\", ":", ",", "#", "+", "\x7f", "\x85", "\0", "\x1f"),
    *(" ", " ", "\t", "\n", "\r", "\r\n", "\f"),
    *('"', "'", '"x y"', "'x y'", '"\\n"', '"\\101"', '"\\400"', '"\\8"', '"\\"', '""', "''", '"é\\é"', "'\"'"),
)
WORDS = ("required", "REQUIRED", "optional", "ıoptional", '"requisite"', "'sufficient'", "needed", "7")


def random_text(rng: random.Random) -> str:
    """Return a config whose parts are mostly right, with some pieces put in anywhere."""
    parts = [rng.choice(("com.x.Module", "x", '"a.B"', "7x", "a/b"))] if rng.random() < 0.1 else ["com.x.Module"]
    parts += [" ", rng.choice(WORDS) if rng.random() < 0.2 else "required"]
    for number in range(rng.randint(0, 3)):
        value = rng.choice(('"v"', "'v'", "v") if rng.random() < 0.7 else PIECES)
        parts += [rng.choice((" ", "\n", " /* c */ ", " // c\n")), f"n{number}", "=", value]
    parts.append(rng.choice((";", ";", ";", ";", " ;", "; ", ";\n", "", ";x", "; com.x.Other required;")))
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
        parts.insert(rng.randint(0, len(parts)), rng.choice(PIECES))
    return "".join(parts)


def read_by_kafka(texts: list[str]) -> list[dict[str, Any]]:
    """Return the texts with their modules and options, or errors."""
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    output = run_tool(str(PROGRAM), input=lines, timeout=PROCESS + CASES / 500).stdout
    found = [json.loads(line) for line in output.split("\n") if line.startswith("{")]
    assert len(found) == len(texts), output[-2000:]
    return found


def read_here(text: str) -> tuple[str, dict[str, str]] | None:
    try:
        module = parse_jaas(Secret(text), "sasl.jaas.config")
    except ConfigError:
        return None
    return module.name, {name: value.reveal() for name, value in module.options.items()}


@pytest.mark.timeout(GUARD + CASES / 200)
def test_random_configs_are_read_as_by_kafka(rng: random.Random) -> None:
    cases = read_by_kafka([random_text(rng) for _ in range(CASES)])
    different = []
    for case in cases:
        kafka = None
        if "error" not in case:
            if NAMELESS in case["options"]:
                continue
            kafka = (case["module"].rpartition(".")[2], case["options"])
        here = read_here(case["text"])
        if here != kafka:
            different.append((case, here))
    assert not different, f"{len(different)} of {CASES}, the first ones: {different[:5]}"
    read = sum("error" not in case for case in cases)
    assert 0.2 < read / CASES < 0.9
