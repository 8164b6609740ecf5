"""The methods of the admin clients for ACLs, the credentials of users, delegation tokens, and client quotas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kclient.admin import acls, quotas, tokens, users
from kclient.admin.acls import AclBinding, AclBindingFilter
from kclient.admin.methods.base import AsyncMethods, BlockingMethods, documented_by
from kclient.admin.quotas import QuotaEntity, QuotaFilter
from kclient.admin.tokens import DelegationToken
from kclient.admin.users import ScramAlteration, ScramCredentialInfo
from kclient.security.secret import Secret


class SecurityMethods(BlockingMethods):
    """The blocking methods."""

    def create_acls(
        self, bindings: AclBinding | Iterable[AclBinding], *, timeout: float | None = None
    ) -> dict[AclBinding, None]:
        """Create ACLs; one that exists already is no error.

        Parameters:
            bindings: one ACL or several.
            timeout: seconds; None is the option default_api_timeout_ms.

        Errors by ACL: InvalidRequestError, ClusterAuthorizationError, SecurityDisabledError if the cluster has no
        authorizer.
        """
        deadline = self._core.deadline("create_acls", timeout)
        return self._run(acls.create_acls(self._core, bindings, deadline))

    def describe_acls(
        self, wanted: AclBindingFilter | None = None, *, timeout: float | None = None
    ) -> list[AclBinding]:
        """Return the ACLs that a filter selects; None selects all of them.

        Raises:
            ClusterAuthorizationError: the client may not describe the cluster.
            SecurityDisabledError: the cluster has no authorizer.
        """
        deadline = self._core.deadline("describe_acls", timeout)
        return self._run(acls.describe_acls(self._core, wanted, deadline))

    def delete_acls(
        self, filters: AclBindingFilter | Iterable[AclBindingFilter], *, timeout: float | None = None
    ) -> dict[AclBindingFilter, list[AclBinding]]:
        """Delete the ACLs that filters select, and return them by filter.

        `AclBindingFilter()` selects all ACLs of the cluster.

        Errors by filter: ClusterAuthorizationError, SecurityDisabledError.
        """
        deadline = self._core.deadline("delete_acls", timeout)
        return self._run(acls.delete_acls(self._core, filters, deadline))

    def describe_user_scram_credentials(
        self, names: str | Iterable[str] | None = None, *, timeout: float | None = None
    ) -> dict[str, tuple[ScramCredentialInfo, ...]]:
        """Return the mechanisms and iterations of users who can log in by SCRAM.

        Parameters:
            names: the users; None for all.
            timeout: seconds; None is the option default_api_timeout_ms.

        Errors by user: ResourceNotFoundError if the user has no credentials.
        """
        deadline = self._core.deadline("describe_user_scram_credentials", timeout)
        return self._run(users.describe_user_scram_credentials(self._core, names, deadline))

    def alter_user_scram_credentials(
        self, alterations: ScramAlteration | Iterable[ScramAlteration], *, timeout: float | None = None
    ) -> dict[str, None]:
        """Set and delete the credentials of users; the broker does not receive the passwords (KIP-554).

        Parameters:
            alterations: `ScramUpsertion` and `ScramDeletion`, at most one for each user.
            timeout: seconds; None is the option default_api_timeout_ms.

        Errors by user: ResourceNotFoundError for a deletion, UnacceptableCredentialError for iterations that the broker
        does not accept, DuplicateResourceError for a user with two alterations.
        """
        deadline = self._core.deadline("alter_user_scram_credentials", timeout)
        return self._run(users.alter_user_scram_credentials(self._core, alterations, deadline))

    def create_delegation_token(
        self,
        *,
        owner: str | None = None,
        renewers: str | Iterable[str] = (),
        max_lifetime: float | None = None,
        timeout: float | None = None,
    ) -> DelegationToken:
        """Create a token with which clients log in by SCRAM as its owner (KIP-48).

        If a connection is lost before the broker responds, the request is sent again, and there may be two tokens.

        Parameters:
            owner: the principal of these clients, such as "User:anne"; None is the user of this client.
            renewers: the principals that may renew the token and let it expire, besides the owner.
            max_lifetime: seconds until the token expires in any case; None is the setting of the brokers, the most.
            timeout: seconds; None is the option default_api_timeout_ms.

        Raises:
            DelegationTokenDisabledError: the brokers have no `delegation.token.secret.key`.
            DelegationTokenAuthorizationError: the client has no ACL to create tokens of this owner (KIP-373).
            UnsupportedByAuthenticationError: the client has not proved who it is, or has logged in with a token.
            InvalidPrincipalTypeError: a renewer is not a user.
            UnsupportedVersionError: the broker is older than Kafka 3.3, and there is an owner.
        """
        deadline = self._core.deadline("create_delegation_token", timeout)
        return self._run(tokens.create_delegation_token(self._core, owner, renewers, max_lifetime, deadline))

    def renew_delegation_token(
        self, hmac: str | Secret, *, renew_period: float | None = None, timeout: float | None = None
    ) -> int:
        """Let a token expire later; return when, in milliseconds since the epoch.

        Parameters:
            hmac: the HMAC of the token in base64.
            renew_period: seconds from now until it expires; None is the setting of the brokers, the most.
            timeout: seconds; None is the option default_api_timeout_ms.

        Raises:
            DelegationTokenNotFoundError: no token has this HMAC.
            DelegationTokenOwnerMismatchError: the client is neither the owner nor a renewer.
            DelegationTokenExpiredError: the token has expired.
            DelegationTokenDisabledError, UnsupportedByAuthenticationError: see `create_delegation_token`.
        """
        deadline = self._core.deadline("renew_delegation_token", timeout)
        return self._run(tokens.renew_delegation_token(self._core, hmac, renew_period, deadline))

    def expire_delegation_token(
        self, hmac: str | Secret, *, expiry_period: float | None = None, timeout: float | None = None
    ) -> int:
        """Let a token expire at a time, or remove it; return when it expires, in milliseconds since the epoch.

        Parameters:
            hmac: the HMAC of the token in base64.
            expiry_period: seconds from now until it expires; None removes it at once.
            timeout: seconds; None is the option default_api_timeout_ms.

        Raises:
            KafkaError: see `renew_delegation_token`.
        """
        deadline = self._core.deadline("expire_delegation_token", timeout)
        return self._run(tokens.expire_delegation_token(self._core, hmac, expiry_period, deadline))

    def describe_delegation_token(
        self, owners: str | Iterable[str] | None = None, *, timeout: float | None = None
    ) -> list[DelegationToken]:
        """Return the tokens that the client may see, with their HMACs, the oldest first.

        It sees those that it owns, has requested or may renew, and others by ACLs.

        Parameters:
            owners: principals such as "User:anne", for the tokens that they own, have requested or may renew; None for
                all.
            timeout: seconds; None is the option default_api_timeout_ms.

        Raises:
            DelegationTokenDisabledError, UnsupportedByAuthenticationError: see `create_delegation_token`.
        """
        deadline = self._core.deadline("describe_delegation_token", timeout)
        return self._run(tokens.describe_delegation_token(self._core, owners, deadline))

    def describe_client_quotas(
        self, wanted: QuotaFilter | None = None, *, timeout: float | None = None
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Return the quotas of the entities that a filter selects; None selects all.

        A quota is `producer_byte_rate` and `consumer_byte_rate` (bytes per second), `request_percentage` (percent of
        a broker's threads), `controller_mutation_rate` (partitions per second), and for IP addresses
        `connection_creation_rate` (connections per second).
        """
        deadline = self._core.deadline("describe_client_quotas", timeout)
        return self._run(quotas.describe_client_quotas(self._core, wanted, deadline))

    def alter_client_quotas(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> dict[QuotaEntity, None]:
        """Set and remove quotas (KIP-546).

        Parameters:
            changes: by entity the quotas by name; None removes a quota.
            validate_only: whether to check the request only.
            timeout: seconds; None is the option default_api_timeout_ms.

        Errors by entity: InvalidRequestError for a name or a value that does not exist, ClusterAuthorizationError.
        """
        deadline = self._core.deadline("alter_client_quotas", timeout)
        return self._run(quotas.alter_client_quotas(self._core, changes, validate_only, deadline))


@documented_by(SecurityMethods)
class AsyncSecurityMethods(AsyncMethods):
    """The same methods for asyncio and trio."""

    async def create_acls(
        self, bindings: AclBinding | Iterable[AclBinding], *, timeout: float | None = None
    ) -> dict[AclBinding, None]:
        deadline = self._core.deadline("create_acls", timeout)
        return await self._run(acls.create_acls(self._core, bindings, deadline))

    async def describe_acls(
        self, wanted: AclBindingFilter | None = None, *, timeout: float | None = None
    ) -> list[AclBinding]:
        deadline = self._core.deadline("describe_acls", timeout)
        return await self._run(acls.describe_acls(self._core, wanted, deadline))

    async def delete_acls(
        self, filters: AclBindingFilter | Iterable[AclBindingFilter], *, timeout: float | None = None
    ) -> dict[AclBindingFilter, list[AclBinding]]:
        deadline = self._core.deadline("delete_acls", timeout)
        return await self._run(acls.delete_acls(self._core, filters, deadline))

    async def describe_user_scram_credentials(
        self, names: str | Iterable[str] | None = None, *, timeout: float | None = None
    ) -> dict[str, tuple[ScramCredentialInfo, ...]]:
        deadline = self._core.deadline("describe_user_scram_credentials", timeout)
        return await self._run(users.describe_user_scram_credentials(self._core, names, deadline))

    async def alter_user_scram_credentials(
        self, alterations: ScramAlteration | Iterable[ScramAlteration], *, timeout: float | None = None
    ) -> dict[str, None]:
        deadline = self._core.deadline("alter_user_scram_credentials", timeout)
        return await self._run(users.alter_user_scram_credentials(self._core, alterations, deadline))

    async def create_delegation_token(
        self,
        *,
        owner: str | None = None,
        renewers: str | Iterable[str] = (),
        max_lifetime: float | None = None,
        timeout: float | None = None,
    ) -> DelegationToken:
        deadline = self._core.deadline("create_delegation_token", timeout)
        return await self._run(tokens.create_delegation_token(self._core, owner, renewers, max_lifetime, deadline))

    async def renew_delegation_token(
        self, hmac: str | Secret, *, renew_period: float | None = None, timeout: float | None = None
    ) -> int:
        deadline = self._core.deadline("renew_delegation_token", timeout)
        return await self._run(tokens.renew_delegation_token(self._core, hmac, renew_period, deadline))

    async def expire_delegation_token(
        self, hmac: str | Secret, *, expiry_period: float | None = None, timeout: float | None = None
    ) -> int:
        deadline = self._core.deadline("expire_delegation_token", timeout)
        return await self._run(tokens.expire_delegation_token(self._core, hmac, expiry_period, deadline))

    async def describe_delegation_token(
        self, owners: str | Iterable[str] | None = None, *, timeout: float | None = None
    ) -> list[DelegationToken]:
        deadline = self._core.deadline("describe_delegation_token", timeout)
        return await self._run(tokens.describe_delegation_token(self._core, owners, deadline))

    async def describe_client_quotas(
        self, wanted: QuotaFilter | None = None, *, timeout: float | None = None
    ) -> dict[QuotaEntity, dict[str, float]]:
        deadline = self._core.deadline("describe_client_quotas", timeout)
        return await self._run(quotas.describe_client_quotas(self._core, wanted, deadline))

    async def alter_client_quotas(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> dict[QuotaEntity, None]:
        deadline = self._core.deadline("alter_client_quotas", timeout)
        return await self._run(quotas.alter_client_quotas(self._core, changes, validate_only, deadline))
