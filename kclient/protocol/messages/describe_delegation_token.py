"""Lists delegation tokens by owner (KIP-48)."""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, int16, int32, int64, secret, since


@request(api_key=41, versions="1-3", flexible="2+")
class DescribeDelegationTokenRequest(Message):
    owners: list[DescribeDelegationTokenOwner] | None = array()

    class DescribeDelegationTokenOwner(Struct):
        principal_type: str = ""
        principal_name: str = ""


@response(api_key=41, versions="1-3", flexible="2+")
class DescribeDelegationTokenResponse(Message):
    error_code: int16 = 0
    tokens: list[DescribedDelegationToken] = array()
    throttle_time_ms: int32 = 0

    class DescribedDelegationToken(Struct):
        principal_type: str = ""
        principal_name: str = ""
        token_requester_principal_type: Annotated[str, since(3)] = ""
        token_requester_principal_name: Annotated[str, since(3)] = ""
        issue_timestamp: int64 = 0
        expiry_timestamp: int64 = 0
        max_timestamp: int64 = 0
        token_id: str = ""
        hmac: Annotated[bytes, secret] = b""
        renewers: list[DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer] = array()

    class DescribedDelegationTokenRenewer(Struct):
        principal_type: str = ""
        principal_name: str = ""
