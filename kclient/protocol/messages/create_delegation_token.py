"""Issues a delegation token (KIP-48).

Version 3 lets a token be made for another user.
"""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, int16, int32, int64, secret, since


@request(api_key=38, versions="1-3", flexible="2+")
class CreateDelegationTokenRequest(Message):
    owner_principal_type: Annotated[str | None, since(3)] = ""
    owner_principal_name: Annotated[str | None, since(3)] = ""
    renewers: list[CreatableRenewers] = array()
    max_lifetime_ms: int64 = 0

    class CreatableRenewers(Struct):
        principal_type: str = ""
        principal_name: str = ""


@response(api_key=38, versions="1-3", flexible="2+")
class CreateDelegationTokenResponse(Message):
    error_code: int16 = 0
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: Annotated[str, since(3)] = ""
    token_requester_principal_name: Annotated[str, since(3)] = ""
    issue_timestamp_ms: int64 = 0
    expiry_timestamp_ms: int64 = 0
    max_timestamp_ms: int64 = 0
    token_id: str = ""
    hmac: Annotated[bytes, secret] = b""
    throttle_time_ms: int32 = 0
