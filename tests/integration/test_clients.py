"""What all clients have in common."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from kclient import Admin, AsyncAdmin, AsyncConsumer, AsyncProducer, Consumer, Producer


@pytest.mark.parametrize("client", [Producer, Consumer, Admin])
@pytest.mark.parametrize("attempt", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_client_that_is_pickled_or_copied_says_which_it_is(
    bootstrap_servers: str, client: type[Any], attempt: Callable[[Any], Any]
) -> None:
    with (
        client(client_id="billing", bootstrap_servers=bootstrap_servers) as made,
        pytest.raises(TypeError, match=rf"^<{client.__name__} 'billing' .+> cannot be pickled or copied: "),
    ):
        attempt(made)


@pytest.mark.anyio
@pytest.mark.parametrize("client", [AsyncProducer, AsyncConsumer, AsyncAdmin])
async def test_an_async_client_that_is_pickled_says_which_it_is(bootstrap_servers: str, client: type[Any]) -> None:
    async with client(client_id="billing", bootstrap_servers=bootstrap_servers) as made:
        with pytest.raises(TypeError, match=rf"^<{client.__name__} 'billing' .+> cannot be pickled or copied: "):
            pickle.dumps(made)
