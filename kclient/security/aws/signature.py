"""The message of AWS_MSK_IAM: a request to connect, signed with AWS Signature Version 4.

It is what a presigned URL would have in its query, as a JSON object. The broker makes the same canonical request of it.
Source: Amazon's aws-msk-iam-auth, and "Signature Version 4 signing process" of AWS.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from typing import NamedTuple
from urllib.parse import quote

from kclient.security.secret import Secret

ALGORITHM = "AWS4-HMAC-SHA256"
VERSION = "2020_10_22"
"""The version of the messages."""
_ACTION = "kafka-cluster:Connect"
_SERVICE = "kafka-cluster"
_EXPIRES_SECONDS = 900
_UNRESERVED = "-_.~"
_SIGNED_HEADERS = "host"


class AwsCredentials(NamedTuple):
    """Credentials of AWS; `token` is that of a session, such as of a role, None for a user's keys."""

    access_key: str
    secret_key: Secret
    token: Secret | None = None


def signed_payload(host: str, region: str, credentials: AwsCredentials, user_agent: str, time_ms: int) -> bytes:
    """Return the message of a client.

    Parameters:
        host: the name of the broker's host.
        region: the region of the cluster, as "eu-west-1".
        user_agent: name and version of the client.
        time_ms: when it is signed, in milliseconds since the epoch; it is valid for 15 minutes.
    """
    timestamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time_ms // 1000))
    scope = f"{timestamp[:8]}/{region}/{_SERVICE}/aws4_request"
    query = {
        "Action": _ACTION,
        "X-Amz-Algorithm": ALGORITHM,
        "X-Amz-Credential": f"{credentials.access_key}/{scope}",
        "X-Amz-Date": timestamp,
        "X-Amz-Expires": str(_EXPIRES_SECONDS),
    }
    if credentials.token is not None:
        query["X-Amz-Security-Token"] = credentials.token.reveal()
    query["X-Amz-SignedHeaders"] = _SIGNED_HEADERS
    query["X-Amz-Signature"] = _signature(query, host, scope, credentials.secret_key)
    fields = {"version": VERSION, "host": host, "user-agent": user_agent}
    fields |= {name.lower(): value for name, value in query.items()}
    return json.dumps(fields, separators=(",", ":")).encode()


def _signature(query: dict[str, str], host: str, scope: str, secret: Secret) -> str:
    pairs = sorted((_encoded(name), _encoded(value)) for name, value in query.items())
    canonical_query = "&".join(f"{name}={value}" for name, value in pairs)
    no_body = hashlib.sha256(b"").hexdigest()
    request = f"GET\n/\n{canonical_query}\nhost:{host}\n\n{_SIGNED_HEADERS}\n{no_body}"
    digest = hashlib.sha256(request.encode()).hexdigest()
    text = f"{ALGORITHM}\n{query['X-Amz-Date']}\n{scope}\n{digest}"
    key = f"AWS4{secret.reveal()}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), hashlib.sha256)
    return hmac.digest(key, text.encode(), hashlib.sha256).hex()


def _encoded(text: str) -> str:
    return quote(text, safe=_UNRESERVED)
