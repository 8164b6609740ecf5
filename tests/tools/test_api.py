"""The list of the public API has what users see, and nothing that depends on the run."""

from __future__ import annotations

import re

from tools.api import lines, members


class Base:
    def __init__(self, timeout: float = 1.0) -> None:
        self.timeout = timeout

    def close(self) -> None: ...

    def _wire(self) -> None: ...


Base.__module__ = "kclient.example"


class Derived(Base):
    limit: int = 3

    @property
    def depth(self) -> int:
        return 0

    async def poll(self, timeout: float | None = None) -> list[str]:
        return []


Derived.__module__ = "kclient.example"


def test_members_of_unlisted_bases_are_listed_with_their_signatures() -> None:
    assert list(members(Derived, {Derived})) == [
        "close(self) -> None",
        "depth: int  (property)",
        "limit: int",
        "async poll(self, timeout: float | None = None) -> list[str]",
    ]


def test_members_of_a_listed_base_are_listed_with_the_base_alone() -> None:
    assert "close(self) -> None" not in list(members(Derived, {Base, Derived}))


def test_list_is_the_same_in_each_run() -> None:
    text = "\n".join(lines())
    assert "class Producer" in text
    assert not re.search(r"0x[0-9a-f]{6}", text)
