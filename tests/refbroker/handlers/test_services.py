"""Each handler names the parts of the broker that it uses, and the dispatcher's broker has them."""

from __future__ import annotations

import importlib
from typing import get_args, get_type_hints

import pytest

from refbroker.handlers.registry import APIS, CONTROLLER_APIS
from refbroker.handlers.services import BrokerServices


@pytest.mark.parametrize("module", sorted({api.module for api in (*APIS.values(), *CONTROLLER_APIS.values())}), ids=str)
def test_a_broker_for_handlers_has_the_parts_that_a_handler_names(module: str) -> None:
    handler = importlib.import_module(f"refbroker.handlers.{module}")
    (services,) = get_args(get_type_hints(handler.handle)["context"])
    assert services is not BrokerServices, "a handler names its family, not the whole broker"
    assert services in BrokerServices.__mro__, f"BrokerServices does not include {services}"
