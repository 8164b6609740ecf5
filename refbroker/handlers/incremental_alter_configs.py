"""IncrementalAlterConfigs (44), versions 0 and 1: changes single settings of topics and brokers (KIP-339).

Each resource for itself, all of its changes or none. Operations: 0 set, 1 delete, 2 append to a list,
3 subtract from one; appending to a list that was not set begins with the value that applies. Values are
checked by type and range; of a broker only settings that can be changed while it runs. Left out:
groups, client metrics and loggers (INVALID_REQUEST), alter policies.
"""

from __future__ import annotations

from kclient.errors import InvalidRequestError, KafkaError
from kclient.protocol import Message
from kclient.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from refbroker.dispatch import Change, Context
from refbroker.handlers.answers import code_of
from refbroker.metadata.configs import Edit, Operation, plan_edits

Result = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse


def handle(context: Context, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse | Change:
    """Carry out an IncrementalAlterConfigs request."""
    records: list[Message] = []
    results = []
    seen: set[tuple[int, str]] = set()
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        result = Result(resource_type=kind, resource_name=name, error_message=None)
        try:
            if (kind, name) in seen:
                raise InvalidRequestError("Each resource must appear at most once.")
            seen.add((kind, name))
            edits = [Edit(one.name, _operation(one.config_operation), one.value) for one in resource.configs]
            records += plan_edits(context.broker, kind, name, edits)
        except KafkaError as error:
            result.error_code, result.error_message = code_of(error), error.message
        results.append(result)
    response = IncrementalAlterConfigsResponse(responses=results)
    return response if request.validate_only else Change(records, lambda: response)


def _operation(number: int) -> Operation:
    try:
        return Operation(number)
    except ValueError:
        raise InvalidRequestError(f"Unknown operation type {number}") from None
