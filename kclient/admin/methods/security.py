"""The methods of the admin clients for ACLs, the credentials of users, and client quotas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kclient.admin import acls, quotas, users
from kclient.admin.acls import AclBinding, AclBindingFilter
from kclient.admin.methods.base import AsyncMethods, BlockingMethods, documented_by
from kclient.admin.quotas import QuotaEntity, QuotaFilter
from kclient.admin.users import ScramAlteration, ScramCredentialInfo


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
            alterations: `ScramUpsertion` and `ScramDeletion`, at most one of a user.
            timeout: seconds; None is the option default_api_timeout_ms.

        Errors by user: ResourceNotFoundError for a deletion, UnacceptableCredentialError for iterations that the broker
        does not accept, DuplicateResourceError for a user with two alterations.
        """
        deadline = self._core.deadline("alter_user_scram_credentials", timeout)
        return self._run(users.alter_user_scram_credentials(self._core, alterations, deadline))

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
