"""AlterClientQuotas (49), versions 0 and 1: sets and removes quotas (KIP-546).

The changes of other entities take effect even if those of one are refused. The entity of an address may be a host name,
which has to have an address.

Permissions: ALTER_CONFIGS on the cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from kclient.errors import KafkaError
from kclient.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from refbroker.controller.change import Change
from refbroker.controller.quotas import entity_of, host_names, plan_changes
from refbroker.handlers.context import Context
from refbroker.handlers.services import QuotaServices
from refbroker.metadata.quotas import Entity
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import ALTER_CLUSTER_CONFIGS

Entry = AlterClientQuotasResponse.EntryData


def handle(
    context: Context[QuotaServices], request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse | Change | asyncio.Task[AlterClientQuotasResponse | Change]:
    """Carry out an AlterClientQuotas request."""
    refusal = context.access.refusal(ALTER_CLUSTER_CONFIGS)
    if refusal is not None:
        return _refuse(request, refusal)
    names = host_names(request.entries)
    if names:
        return asyncio.get_running_loop().create_task(_plan_with_lookups(context, request, names))
    return _plan(context, request, names)


async def _plan_with_lookups(
    context: Context[QuotaServices], request: AlterClientQuotasRequest, names: Collection[str]
) -> AlterClientQuotasResponse | Change:
    ordered = sorted(names)
    addresses = await asyncio.gather(*map(context.broker.lookups.address_of, ordered))
    return _plan(context, request, {name for name, address in zip(ordered, addresses, strict=True) if address})


def _plan(
    context: Context[QuotaServices], request: AlterClientQuotasRequest, hosts: Collection[str]
) -> AlterClientQuotasResponse | Change:
    """Return the change that a request makes.

    Parameters:
        hosts: the host names that have an address.
    """
    try:
        records, results = plan_changes(context.broker.image, request.entries, hosts)
    except KafkaError as error:
        return _refuse(request, error)
    response = AlterClientQuotasResponse(entries=[_entry(entity, error) for entity, error in results.items()])
    return response if request.validate_only else Change(records, lambda: response)


def _refuse(request: AlterClientQuotasRequest, error: KafkaError) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(entries=[_entry(entity_of(entry), error) for entry in request.entries])


def _entry(entity: Entity, error: KafkaError | None) -> Entry:
    return Entry(
        error_code=0 if error is None else code_of(error),
        error_message=None if error is None else error.message,
        entity=[
            AlterClientQuotasResponse.EntityData(entity_type=kind, entity_name=name)
            for kind, name in sorted(entity, key=str)
        ],
    )
