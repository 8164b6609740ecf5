"""Both twins as one fixture."""

from __future__ import annotations

from types import ModuleType

import pytest

from kclient.records import pure
from tests.support.twins import compiled_twin


@pytest.fixture(params=["pure", "compiled"])
def twin(request: pytest.FixtureRequest) -> ModuleType:
    if request.param == "pure":
        return pure
    module = compiled_twin()
    if module is None:
        pytest.skip("the compiled twin is not built, or KCLIENT_PURE is set")
    return module
