"""The security of a broker for tests: its certificates, users and ACLs, and what its clients need.

Elsewhere: the certificates themselves (`certificates`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kclient.errors import ConfigError, IllegalStateError
from kclient.protocol import Message
from kclient.protocol.acls import WILDCARD, AclOperation, AclPermissionType, AclResourceType, PatternType
from kclient.protocol.messages.create_acls import CreateAclsRequest
from kclient.security.scram import MECHANISMS
from kclient.security.secret import Secret
from refbroker.building import BrokerParts
from refbroker.controller.acls import plan_creations
from refbroker.controller.scram import credential_record
from refbroker.security.authorizer import STANDARD_AUTHORIZER, SUPER_USERS_SETTING
from refbroker.security.principals import ANONYMOUS
from refbroker.settings.listeners import SecurityProtocol
from refbroker.testing.certificates import Certificates

MECHANISM = "SCRAM-SHA-256"
"""The mechanism by which clients log in, unless they choose another one."""

_UNSECURED_TOKENS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
RESOURCES = {each.name.lower(): each for each in AclResourceType if each > AclResourceType.ANY}
"""The types of resources of ACLs: topic, group, cluster, transactional_id, delegation_token and user."""
_PROTOCOLS = {(protocol.has_tls, protocol.has_sasl): protocol.name for protocol in SecurityProtocol}


class BrokerSecurity:
    """The certificates and users of one broker.

    Parameters:
        tls: whether it has certificates.
        passwords: passwords by user; none for a broker without SASL.
        acls: whether it has an authorizer; the first user, or clients that do not log in, may do everything.

    Attributes:
        certificates: the authority of its certificates; None without TLS.
        protocol: the security protocol of its listener.

    Raises:
        ConfigError: the package trustme is not installed.
    """

    def __init__(self, tls: bool, passwords: Mapping[str, str], *, acls: bool = False) -> None:
        self.certificates = Certificates() if tls else None
        self.protocol = _PROTOCOLS[tls, bool(passwords)]
        self._passwords = {user: Secret(password) for user, password in passwords.items()}
        self._acls = acls

    def settings(self, listeners: Iterable[str]) -> dict[str, str]:
        """Return the settings of a broker with these listeners."""
        found = self.certificates.broker_settings() if self.certificates is not None else {}
        if self._passwords:
            users = " ".join(f'user_{user}="{_quoted(text.reveal())}"' for user, text in self._passwords.items())
            jaas = f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
            for name in listeners:
                found[f"listener.name.{name.lower()}.plain.sasl.jaas.config"] = jaas
                # Without effect unless the settings enable OAUTHBEARER.
                found[f"listener.name.{name.lower()}.oauthbearer.sasl.jaas.config"] = _UNSECURED_TOKENS
            found["sasl.enabled.mechanisms"] = ",".join(("PLAIN", *MECHANISMS))
        if self._acls:
            found["authorizer.class.name"] = STANDARD_AUTHORIZER
            found[SUPER_USERS_SETTING] = f"User:{next(iter(self._passwords), ANONYMOUS.name)}"
        return found

    def client_options(self, protocol: SecurityProtocol, *, with_certificate: bool) -> dict[str, Any]:
        """Return the options of a client, which logs in as the first user.

        Parameters:
            protocol: that of the listener.
            with_certificate: whether to add a certificate of its own.
        """
        options: dict[str, Any] = {}
        if protocol != SecurityProtocol.PLAINTEXT:
            options["security_protocol"] = protocol.name
        if protocol.has_tls and self.certificates is not None:
            options["ssl_truststore_certificates"] = self.certificates.authority
            if with_certificate:
                chain, key = self.certificates.issue()
                options |= {"ssl_keystore_certificate_chain": chain, "ssl_keystore_key": key}
        for user, password in list(self._passwords.items())[: protocol.has_sasl]:
            options |= {"sasl_mechanism": MECHANISM, "sasl_username": user, "sasl_password": password.reveal()}
        return options

    def add_users(self, parts: BrokerParts) -> None:
        """Store the credentials for SCRAM of users that have none yet; on the broker's event loop."""
        records: list[Message] = [
            credential_record(mechanism, user, password.reveal())
            for user, password in self._passwords.items()
            for mechanism in MECHANISMS.values()
            if (mechanism.type, user) not in parts.image.scram
        ]
        if records:
            parts.controller.append(records)


def add_acl(
    parts: BrokerParts, principal: str, operation: str, resource: Mapping[str, str], *, prefixed: bool, deny: bool
) -> None:
    """Store an ACL; on the broker's event loop.

    Parameters:
        principal: as "User:anne".
        operation: the name of an AclOperation.
        resource: the name of one resource by its type (`RESOURCES`).
        prefixed: whether the ACL is for all names that begin with this one.
        deny: whether it denies.

    Raises:
        IllegalStateError: the broker has no authorizer.
        ConfigError: there is no such operation, or not one resource.
        InvalidRequestError: the broker refuses the ACL.
    """
    if parts.authorizer is None:
        raise IllegalStateError("the broker has no authorizer; make it with RefBroker(acls=True)")
    if operation not in AclOperation.__members__:
        raise ConfigError(f"there is no operation {operation}; there are {', '.join(AclOperation.__members__)}")
    if len(resource) != 1 or not resource.keys() <= RESOURCES.keys():
        raise ConfigError(f"an ACL is for one of {', '.join(RESOURCES)}, not for {', '.join(resource) or 'nothing'}")
    ((kind, name),) = resource.items()
    creation = CreateAclsRequest.AclCreation(
        resource_type=RESOURCES[kind],
        resource_name=name,
        resource_pattern_type=PatternType.PREFIXED if prefixed else PatternType.LITERAL,
        principal=principal,
        host=WILDCARD,
        operation=AclOperation[operation],
        permission_type=AclPermissionType.DENY if deny else AclPermissionType.ALLOW,
    )
    records, errors = plan_creations(parts.authorizer, parts.controller.rng, [creation])
    for error in filter(None, errors):
        raise error
    parts.controller.append(records)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
