"""AlterClientQuotas (49), versions 0 and 1: sets and removes quotas (KIP-546).

The changes of other entities take effect even if those of one are refused.

Permissions: ALTER_CONFIGS on the cluster.
"""

from __future__ import annotations

from kclient.errors import KafkaError
from kclient.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from refbroker.handlers.context import Change, Context
from refbroker.handlers.services import MetadataServices
from refbroker.metadata.quotas import Entity, plan_changes
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import ALTER_CLUSTER_CONFIGS

Entry = AlterClientQuotasResponse.EntryData


def handle(context: Context[MetadataServices], request: AlterClientQuotasRequest) -> AlterClientQuotasResponse | Change:
    """Carry out an AlterClientQuotas request."""
    try:
        refusal = context.access.refusal(ALTER_CLUSTER_CONFIGS)
        if refusal is not None:
            raise refusal
        records, results = plan_changes(context.broker.image, request.entries)
    except KafkaError as error:
        entities = (
            frozenset((part.entity_type, part.entity_name) for part in entry.entity) for entry in request.entries
        )
        return AlterClientQuotasResponse(entries=[_entry(entity, error) for entity in entities])
    response = AlterClientQuotasResponse(entries=[_entry(entity, error) for entity, error in results.items()])
    return response if request.validate_only else Change(records, lambda: response)


def _entry(entity: Entity, error: KafkaError | None) -> Entry:
    return Entry(
        error_code=0 if error is None else code_of(error),
        error_message=None if error is None else error.message,
        entity=[
            AlterClientQuotasResponse.EntityData(entity_type=kind, entity_name=name)
            for kind, name in sorted(entity, key=str)
        ],
    )
