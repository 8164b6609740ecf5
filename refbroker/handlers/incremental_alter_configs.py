"""IncrementalAlterConfigs (44), versions 0 and 1: changes single settings (KIP-339), or levels of loggers (KIP-412).

Topics, brokers, groups and client metrics subscriptions; each resource has its own result, and gets all of its changes
or none. Operations: 0 set, 1 delete, 2 append to a list, 3 subtract from a list; a list that was not set starts with
Kafka's default. The resulting settings of a resource are validated together. Levels of loggers take effect immediately
and are not stored.

Permissions: ALTER_CONFIGS on the topic or the group, otherwise on the cluster.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

from kclient.errors import InvalidConfigurationError, InvalidRequestError, KafkaError
from kclient.protocol import Message
from kclient.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from refbroker.controller.change import Change
from refbroker.controller.configs import Edit, Operation, check_request, plan_edits
from refbroker.handlers.config_permissions import altering, plan_if_allowed
from refbroker.handlers.context import Context
from refbroker.handlers.services import ControllerServices
from refbroker.metadata.image import BROKER_LOGGER_RESOURCE
from refbroker.runtime import loggers
from refbroker.runtime.error_codes import code_of

Result = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse


def handle(
    context: Context[ControllerServices], request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse | Change:
    """Carry out an IncrementalAlterConfigs request."""
    records: list[Message] = []
    results = []
    counts = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        result = Result(resource_type=kind, resource_name=name, error_message=None)
        try:
            if counts[kind, name] > 1:
                raise InvalidRequestError("Each resource must appear at most once.")
            edits = [Edit(one.name, _operation(one.config_operation), one.value) for one in resource.configs]
            if kind == BROKER_LOGGER_RESOURCE:
                _alter_levels(context, name, edits, dry=request.validate_only)
            else:
                plan = partial(plan_edits, context.broker.controller, kind, name, edits)
                records += plan_if_allowed(context.access, kind, name, edits, plan)
        except KafkaError as error:
            result.error_code, result.error_message = code_of(error), error.message
        results.append(result)
    response = IncrementalAlterConfigsResponse(responses=results)
    return response if request.validate_only else Change(records, lambda: response)


def _operation(number: int) -> Operation:
    try:
        return Operation(number)
    except ValueError:
        raise InvalidRequestError(f"Unknown operations type {number}") from None


def _alter_levels(context: Context[ControllerServices], name: str, edits: list[Edit], *, dry: bool) -> None:
    check_request(edits)
    refusal = context.access.refusal(*altering(BROKER_LOGGER_RESOURCE, name))
    if refusal is not None:
        raise refusal
    try:
        number = int(name)
    except ValueError:
        raise InvalidRequestError(f"Node id must be an integer, but it is: {name}") from None
    if number != context.broker.node_id:
        raise InvalidRequestError(f"Unexpected node id. Expected {context.broker.node_id}, but received {number}")
    present = loggers.levels()
    for edit in edits:
        _check_level(edit, present)
    for edit in [] if dry else edits:
        if edit.value is None or edit.operation is Operation.DELETE:
            loggers.unset_level(edit.name)
        else:
            loggers.set_level(edit.name, edit.value)


def _check_level(edit: Edit, present: dict[str, str]) -> None:
    if edit.operation not in (Operation.SET, Operation.DELETE):
        raise InvalidRequestError(f"{edit.operation.name} operation is not allowed for the BROKER_LOGGER resource")
    if edit.name not in present:
        raise InvalidConfigurationError(f"Logger {edit.name} does not exist!")
    if edit.operation is Operation.DELETE:
        if edit.name == loggers.ROOT:
            raise InvalidRequestError(f"Removing the log level of the {loggers.ROOT} logger is not allowed")
    elif edit.value not in loggers.LEVELS:
        raise InvalidConfigurationError(
            f"Cannot set the log level of {edit.name} to {edit.value} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(loggers.LEVELS))}"
        )
