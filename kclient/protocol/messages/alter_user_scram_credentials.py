"""Creates, changes and deletes SCRAM credentials of users (KIP-554).

The client salts the password, so that it never travels.
"""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, int8, int16, int32, secret


@request(api_key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest(Message):
    deletions: list[ScramCredentialDeletion] = array()
    upsertions: list[ScramCredentialUpsertion] = array()

    class ScramCredentialDeletion(Struct):
        name: str = ""
        mechanism: int8 = 0

    class ScramCredentialUpsertion(Struct):
        name: str = ""
        mechanism: int8 = 0
        iterations: int32 = 0
        salt: Annotated[bytes, secret] = b""
        salted_password: Annotated[bytes, secret] = b""


@response(api_key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse(Message):
    throttle_time_ms: int32 = 0
    results: list[AlterUserScramCredentialsResult] = array()

    class AlterUserScramCredentialsResult(Struct):
        user: str = ""
        error_code: int16 = 0
        error_message: str | None = ""
