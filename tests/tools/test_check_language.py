"""The check of the language finds what docs/style.md forbids, and nothing else."""

from __future__ import annotations

import ast

import pytest

from tools.check_language import bad_docstrings, bad_phrases


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("The consumer begins anew.", id="word"),
        pytest.param("The consumer is\nnot told.", id="phrase over two lines"),
        pytest.param("# The loop goes\n    # on", id="phrase over two comment lines"),
        pytest.param("def goes_on():", id="identifier"),
        pytest.param("There Is None.", id="capitals"),
    ],
)
def test_phrase_of_the_list_is_found(text: str) -> None:
    assert [line for line, _ in bad_phrases(text)] == [1]


@pytest.mark.parametrize("text", ["renewal", "newsgroup_id", "recommended", "forever"])
def test_longer_word_that_contains_a_phrase_is_not_found(text: str) -> None:
    assert list(bad_phrases(text)) == []


def test_docstring_of_a_function_begins_with_a_verb() -> None:
    tree = ast.parse('def offset():\n    """The offset."""\n\ndef read():\n    """Return the offset."""')
    assert [(line, message.partition(" begins")[0]) for line, message in bad_docstrings(tree)] == [
        (1, "docstring of offset")
    ]


def test_docstring_of_a_property_may_begin_with_a_noun() -> None:
    assert not list(bad_docstrings(ast.parse('@property\ndef offset(self):\n    """The offset."""')))
