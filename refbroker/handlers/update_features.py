"""UpdateFeatures (57), versions 0 to 2: changes the finalized levels of features, or validates the request.

All updates of a request take effect, or none; the first invalid one is the error of the request. Versions 0 and 1 have
a result per feature too. As in Kafka's controller, `allow_downgrade` in version 0 has no effect: every update there is
an upgrade. Source: KIP-584, KIP-778, KIP-1022.

Permissions: ALTER on the cluster.
"""

from __future__ import annotations

from kclient.errors import InvalidUpdateVersionError
from kclient.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from refbroker.controller.change import Change
from refbroker.controller.features import FeatureUpdate, UpgradeType, plan_updates
from refbroker.handlers.context import Context
from refbroker.handlers.services import ControllerServices
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import ALTER_CLUSTER

_LAST_WITH_RESULTS = 1


def handle(context: Context[ControllerServices], request: UpdateFeaturesRequest) -> UpdateFeaturesResponse | Change:
    """Carry out an UpdateFeatures request."""
    refusal = context.access.refusal(ALTER_CLUSTER)
    if refusal is not None:
        return UpdateFeaturesResponse(error_code=code_of(refusal), error_message=refusal.message)
    updates = [
        FeatureUpdate(update.feature, update.max_version_level, UpgradeType(update.upgrade_type))
        for update in request.feature_updates
    ]
    try:
        records = plan_updates(context.broker.image, context.broker.node_id, updates)
    except InvalidUpdateVersionError as error:
        reason = f"The update failed for all features since the following feature had an error: {error.message}"
        return UpdateFeaturesResponse(error_code=InvalidUpdateVersionError.code, error_message=reason)
    response = UpdateFeaturesResponse(error_message=None)
    if context.version <= _LAST_WITH_RESULTS:
        response.results = [
            UpdateFeaturesResponse.UpdatableFeatureResult(feature=update.name, error_message=None) for update in updates
        ]
    return response if request.validate_only else Change(records, lambda: response)
