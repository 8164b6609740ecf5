"""AlterConfigs (33), versions 0 to 2: replaces all settings of resources (KIP-133).

Settings that the request does not contain return to their defaults. As in Kafka, it does not change loggers. Otherwise
it works like IncrementalAlterConfigs.

Permissions: ALTER_CONFIGS on the topic or the group, otherwise on the cluster.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

from kclient.errors import InvalidRequestError, KafkaError
from kclient.protocol import Message
from kclient.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from refbroker.controller.change import Change
from refbroker.controller.configs import Edit, Operation, plan_replacement
from refbroker.handlers.config_permissions import plan_if_allowed
from refbroker.handlers.context import Context
from refbroker.handlers.services import ControllerServices
from refbroker.runtime.error_codes import code_of

Result = AlterConfigsResponse.AlterConfigsResourceResponse


def handle(context: Context[ControllerServices], request: AlterConfigsRequest) -> AlterConfigsResponse | Change:
    """Carry out an AlterConfigs request."""
    records: list[Message] = []
    results = []
    counts = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        result = Result(resource_type=kind, resource_name=name, error_message=None)
        try:
            if counts[kind, name] > 1:
                raise InvalidRequestError("Each resource must appear at most once.")
            edits = [Edit(config.name, Operation.SET, config.value) for config in resource.configs]
            plan = partial(plan_replacement, context.broker.controller, kind, name, edits)
            records += plan_if_allowed(context.access, kind, name, edits, plan)
        except KafkaError as error:
            result.error_code, result.error_message = code_of(error), error.message
        results.append(result)
    response = AlterConfigsResponse(responses=results)
    return response if request.validate_only else Change(records, lambda: response)
