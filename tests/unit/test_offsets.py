"""What an application may give to be committed."""

from __future__ import annotations

from typing import Any

import pytest

from kclient import OffsetAndMetadata, Records, TopicPartition
from kclient._offsets import checked_offsets


def test_offsets_are_numbers_or_have_metadata() -> None:
    noted = OffsetAndMetadata(7, "by hand")
    given: dict[tuple[str, int], OffsetAndMetadata | int] = {("t", 0): 3, TopicPartition("t", 1): noted}
    assert checked_offsets(given) == {
        TopicPartition("t", 0): OffsetAndMetadata(3),
        TopicPartition("t", 1): noted,
    }


@pytest.mark.parametrize("given", [Records(), [("t", 0)], "t", 5])
def test_what_is_no_mapping_is_told_where_offsets_come_from(given: Any) -> None:
    with pytest.raises(TypeError, match=rf"next_offsets\(\).*, not {type(given).__name__}$"):
        checked_offsets(given)


def test_an_offset_that_is_none_names_its_partition() -> None:
    with pytest.raises(TypeError, match="not '3' for t-0"):
        checked_offsets({("t", 0): "3"})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not -1 for t-0"):
        checked_offsets({("t", 0): OffsetAndMetadata(-1)})
