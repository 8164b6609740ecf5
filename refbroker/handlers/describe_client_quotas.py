"""DescribeClientQuotas (48), versions 0 and 1: returns the quotas of the entities that a filter selects (KIP-546).

Permissions: DESCRIBE_CONFIGS on the cluster.
"""

from __future__ import annotations

from kclient.errors import KafkaError
from kclient.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from refbroker.handlers.context import Context
from refbroker.handlers.services import MetadataServices
from refbroker.metadata.quotas import Entity, QuotaFilter
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import DESCRIBE_CLUSTER_CONFIGS

Entry = DescribeClientQuotasResponse.EntryData


def handle(context: Context[MetadataServices], request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    """Answer a DescribeClientQuotas request."""
    try:
        refusal = context.access.refusal(DESCRIBE_CLUSTER_CONFIGS)
        if refusal is not None:
            raise refusal
        wanted = QuotaFilter.from_request(request)
    except KafkaError as error:
        return DescribeClientQuotasResponse(error_code=code_of(error), error_message=error.message, entries=None)
    found: dict[Entity, dict[str, float]] = {}
    for (entity, key), record in context.broker.image.quotas.items():
        if wanted.matches(entity):
            found.setdefault(entity, {})[key] = record.value
    return DescribeClientQuotasResponse(entries=[_entry(entity, values) for entity, values in found.items()])


def _entry(entity: Entity, values: dict[str, float]) -> Entry:
    response = DescribeClientQuotasResponse
    return Entry(
        entity=[response.EntityData(entity_type=kind, entity_name=name) for kind, name in sorted(entity, key=str)],
        values=[response.ValueData(key=key, value=value) for key, value in values.items()],
    )
