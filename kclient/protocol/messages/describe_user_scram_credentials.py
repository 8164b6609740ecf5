"""Lists which SCRAM credentials users have, without the secrets (KIP-554)."""

from __future__ import annotations

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, int8, int16, int32


@request(api_key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest(Message):
    users: list[UserName] | None = array()

    class UserName(Struct):
        name: str = ""


@response(api_key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = ""
    results: list[DescribeUserScramCredentialsResult] = array()

    class DescribeUserScramCredentialsResult(Struct):
        user: str = ""
        error_code: int16 = 0
        error_message: str | None = ""
        credential_infos: list[DescribeUserScramCredentialsResponse.CredentialInfo] = array()

    class CredentialInfo(Struct):
        mechanism: int8 = 0
        iterations: int32 = 0
