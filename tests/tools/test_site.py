"""Pages and links of the site lead where the same pages lead on the forge."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tools.site import on_page_markdown

PAGES = {"index.md", "DESIGN.md", "consumer.md", "groups.md", "internals/engine.md"}
FILES = SimpleNamespace(get_file_from_path=lambda path: path if path in PAGES else None)


@pytest.mark.parametrize(
    ("page", "link", "adapted"),
    [
        pytest.param("index.md", "[a](docs/groups.md#join)", "[a](groups.md#join)", id="page from the README"),
        pytest.param("consumer.md", "[a](groups.md)", "[a](groups.md)", id="page beside it"),
        pytest.param("internals/engine.md", "[a](../../DESIGN.md)", "[a](../DESIGN.md)", id="page of the root"),
        pytest.param("groups.md", "[a](../README.md#install)", "[a](index.md#install)", id="README"),
        pytest.param("groups.md", "[a](../examples/x.py)", "a (`examples/x.py`)", id="file that is no page"),
        pytest.param("groups.md", "[a](https://kafka.apache.org)", "[a](https://kafka.apache.org)", id="other site"),
        pytest.param("groups.md", "[a](#here)", "[a](#here)", id="heading of the page"),
    ],
)
def test_links_are_valid_in_the_site(page: str, link: str, adapted: str) -> None:
    assert on_page_markdown(link, SimpleNamespace(file=SimpleNamespace(src_uri=page)), None, FILES) == adapted  # type: ignore[arg-type]
