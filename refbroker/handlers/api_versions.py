"""ApiVersions (18), versions 0 to 4: returns the APIs and features of this broker.

Only implemented APIs are listed (see `registry`): those of a broker, or on a listener of controllers, those of a
controller. A version beyond 4 gets a response in version 0 with UNSUPPORTED_VERSION and the versions of this API, so
that the client can repeat the request (KIP-511); the response header is always version 0. An invalid name or version of
the client's software is INVALID_REQUEST. The finalized features are those with an effect in this broker:
`metadata.version`, `group.version` for the consumer protocol, and `transaction.version`. Supported features with the
minimum level 0 are returned from version 4 on, because older Java clients reject that level, and 3.3 fails
(KAFKA-17492). Source: KIP-35, KIP-511, KIP-584.
"""

from __future__ import annotations

import re

from kclient.errors import InvalidRequestError, UnsupportedVersionError
from kclient.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from refbroker.handlers.context import Context
from refbroker.handlers.registry import APIS, CONTROLLER_APIS, Api
from refbroker.handlers.services import MetadataServices
from refbroker.metadata.features import SUPPORTED_FEATURES, finalized_features

API_KEY = 18
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_FIRST_WITH_SOFTWARE = 3
_FIRST_WITH_LEVEL_0 = 4


def handle(context: Context[MetadataServices], request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Answer an ApiVersions request."""
    if context.version >= _FIRST_WITH_SOFTWARE:
        software = (request.client_software_name, request.client_software_version)
        if not all(map(_SOFTWARE.fullmatch, software)):
            return ApiVersionsResponse(error_code=InvalidRequestError.code)
        context.connection.client_software = software
    if context.connection.authenticator is not None:
        context.connection.authenticator.on_versions()
    image = context.broker.image
    of_controller = context.connection.listener in context.broker.config.listeners.controllers
    return ApiVersionsResponse(
        api_keys=[_range(key, api) for key, api in (CONTROLLER_APIS if of_controller else APIS).items()],
        supported_features=[
            ApiVersionsResponse.SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in SUPPORTED_FEATURES.items()
            if low or context.version >= _FIRST_WITH_LEVEL_0
        ],
        finalized_features_epoch=image.next_offset - 1,
        finalized_features=[
            ApiVersionsResponse.FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in finalized_features(image).items()
        ],
    )


def unsupported() -> ApiVersionsResponse:
    """Return the response to an unsupported version of the request; encode it at version 0."""
    return ApiVersionsResponse(error_code=UnsupportedVersionError.code, api_keys=[_range(API_KEY, APIS[API_KEY])])


def _range(key: int, api: Api) -> ApiVersionsResponse.ApiVersion:
    first = api.first if api.advertised_first is None else api.advertised_first
    return ApiVersionsResponse.ApiVersion(api_key=key, min_version=first, max_version=api.last)
