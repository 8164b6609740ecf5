"""The decisions of refbroker's authorizer beside those of Kafka's own class: random ACLs, and random questions.

KCLIENT_SECURITY_DECISIONS is the number of questions. Elsewhere: whole requests on both brokers
(`test_authorizer_differences`).

Names of resources that begin with a character below "*", or with "*" and more, are omitted: for these Kafka's scan of
ACLs ends in an exception or never, or does not see the ACLs for "*". So is a user named "*", whose requests all fail.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import pytest

from kclient.protocol.acls import AclOperation, AclPermissionType, AclResourceType, PatternType
from refbroker.handlers.answers import host_of
from refbroker.security.acls import Acl, Entry, Pattern
from refbroker.security.authorizer import Authorizer
from tests.support.kafka.jars import run_tool
from tests.support.patience import GUARD, PROCESS

PROGRAM = Path(__file__).with_name("java") / "Decisions.java"
QUESTIONS = int(os.environ.get("KCLIENT_SECURITY_DECISIONS", "10000"))
AT_ONCE = 500
"""Questions for the same ACLs."""

TYPES: list[AclResourceType] = [
    one for one in AclResourceType if one not in (AclResourceType.UNKNOWN, AclResourceType.ANY)
]
GRANTED: list[AclOperation] = [one for one in AclOperation if one not in (AclOperation.UNKNOWN, AclOperation.ANY)]
ASKED: list[AclOperation] = [one for one in GRANTED if one is not AclOperation.ALL]
USERS = ("alice", "bob", "alice:b", "ALICE", "ä")
HOSTS = ("127.0.0.1", "10.0.0.1", "::1", "2001:db8::a", "::ffff:10.0.0.1")
LETTERS = "ab.é😀😁"


class Question(NamedTuple):
    """What a client asks for; on any resource of the type if there is no name."""

    user: str
    host: str
    operation: AclOperation
    resource_type: AclResourceType
    name: str | None

    def line(self) -> str:
        """Return the question as Decisions.java reads it."""
        fields = [self.user, self.host, str(int(self.operation)), str(int(self.resource_type))]
        return "\t".join(["any", *fields] if self.name is None else ["decide", *fields, self.name])


class Round(NamedTuple):
    """An authorizer, and what it is asked."""

    super_users: list[str]
    default: bool
    acls: list[Acl]
    questions: list[Question]

    def lines(self) -> Iterator[str]:
        """Yield the lines for Decisions.java."""
        for pattern, entry in self.acls:
            name = (str(pattern.resource_type), str(pattern.pattern_type), pattern.name)
            yield "\t".join(["acl", *name, entry.principal, entry.host, str(entry.operation), str(entry.permission)])
        yield f"authorizer\t{';'.join(self.super_users)}\t{str(self.default).lower()}"
        for question in self.questions:
            yield question.line()

    def answers(self) -> str:
        """Return the decisions of refbroker, as Decisions.java prints them."""
        authorizer = Authorizer(self.super_users, default=self.default)
        for number, acl in enumerate(self.acls):
            authorizer.add(UUID(int=number), acl)
        return "".join("01"[_ask(authorizer, question)] for question in self.questions)


def _ask(authorizer: Authorizer, question: Question) -> bool:
    principal, host = f"User:{question.user}", host_of(f"{question.host}:1").removeprefix("/")
    if question.name is None:
        return authorizer.decide_any(principal, host, question.operation, question.resource_type)
    return authorizer.decide(principal, host, question.operation, question.resource_type, question.name)[0]


def random_round(rng: random.Random) -> Round:
    types = rng.sample(TYPES, rng.randint(1, 3))
    users = rng.sample(USERS, rng.randint(1, 4))
    names = ["", "*", *("".join(rng.choices(LETTERS, k=rng.randint(1, 5))) for _ in range(8))]
    # The ACLs are about few operations, so that several are for the same one.
    granted = rng.sample(GRANTED, rng.randint(1, len(GRANTED)))
    acls = {_random_acl(rng, types, users, names, granted): None for _ in range(rng.choice((0, 3, 10, 40, 200)))}
    questions = [
        Question(
            rng.choice(users),
            rng.choice(HOSTS),
            rng.choice(ASKED),
            rng.choice(types),
            None if rng.random() < 0.2 else rng.choice(names),
        )
        for _ in range(AT_ONCE)
    ]
    super_users = [f"User:{rng.choice(USERS)}"] if rng.random() < 0.2 else []
    return Round(super_users, rng.random() < 0.5, list(acls), questions)


def _random_acl(
    rng: random.Random, types: list[AclResourceType], users: list[str], names: list[str], granted: list[AclOperation]
) -> Acl:
    name = rng.choice(names[1:])
    pattern = PatternType.LITERAL
    if rng.random() < 0.4:
        pattern, name = PatternType.PREFIXED, name[: rng.randint(1, len(name))]
    principal = rng.choice(["User:*", "Group:alice", *(f"User:{user}" for user in users)])
    host = rng.choice(["*", "*", "127.0.0.1", "10.0.0.1", "0:0:0:0:0:0:0:1", "::1", "2001:db8:0:0:0:0:0:a"])
    permission = AclPermissionType.DENY if rng.random() < 0.3 else AclPermissionType.ALLOW
    entry = Entry(principal, host, int(rng.choice(granted)), int(permission))
    return Acl(Pattern(int(rng.choice(types)), int(pattern), name), entry)


@pytest.mark.timeout(GUARD + QUESTIONS / 500)
def test_decisions_are_those_of_kafka(needs_kafka: None, rng: random.Random) -> None:
    rounds = [random_round(rng) for _ in range(max(QUESTIONS // AT_ONCE, 1))]
    text = "".join(f"{line}\n" for one in rounds for line in one.lines())
    output = run_tool(str(PROGRAM), input=text, timeout=PROCESS + QUESTIONS / 1000).stdout
    expected = output.partition("decisions:\n")[2].splitlines()
    assert len(expected) == len(rounds), output[-2000:]
    allowed = 0
    for number, (one, theirs) in enumerate(zip(rounds, expected, strict=True)):
        ours = one.answers()
        allowed += ours.count("1")
        different = [
            (question, ours[index], theirs[index])
            for index, question in enumerate(one.questions)
            if ours[index] != theirs[index]
        ]
        if different:
            question = different[0][0]
            acls = [str(acl) for acl in one.acls if acl.pattern.resource_type == question.resource_type]
            pytest.fail(
                f"round {number}: {len(different)} differences (question, refbroker, Kafka), the first: {different[0]}"
                f"\ndefault {one.default}, super users {one.super_users}\n" + "\n".join(acls)
            )
    asked = len(rounds) * AT_ONCE
    print(f"{asked} decisions, {allowed} allowed")  # noqa: T201
    assert 0.1 < allowed / asked < 0.9
