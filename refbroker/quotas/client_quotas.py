"""Which quota applies to a client, and how long the client must wait.

The most specific quota of a client's user and client id applies. A quota of a user is shared by all client ids of that
user, a quota of a client id by all users; a default gives each its own share. Enforcement follows KIP-219: a response
is sent at once and says how long the client should wait, and until then the connection is not read.

Not implemented: quotas of replication, and ClientQuotaCallback. Source: KIP-13, KIP-55, KIP-124, KIP-219, KIP-599,
Kafka's ClientQuotaManager, ClientRequestQuotaManager and ControllerMutationQuotaManager.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import perf_counter_ns
from typing import NamedTuple, Protocol

from kclient.errors import ThrottlingQuotaExceededError
from kclient.protocol import Message
from kclient.protocol.messages.records.metadata_log import ClientQuotaRecord
from refbroker.config import BrokerConfig
from refbroker.metadata.image import ClusterImage
from refbroker.metadata.quotas import (
    CLIENT_ID,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
)
from refbroker.quotas.rates import METRICS_WINDOW, Average, Rate, TokenBucket, Window
from refbroker.runtime.clock import Clock

_EXPIRATION_MS = 3_600_000
"""How long a rate is kept without use."""
LOOKUP_LIMIT = 10_000
"""How many lookups of quotas are remembered: clients choose their ids."""
_LONGEST_REMEMBERED = 500
"""Characters of a user and a client id whose lookups are remembered."""
METER_LIMIT = 10_000
"""Above this number, a rate is kept for a window only, after which it is 0."""
_NS_PER_PERCENT = 10_000_000
"""Nanoseconds within a second."""


class Share(NamedTuple):
    """A quota by its name, and the clients that use it together; None stands for every user or client id.

    As the key of a quota, "" stands for the default user or client id.
    """

    key: str
    user: str | None
    client_id: str | None


class _Quota(NamedTuple):
    share: Share
    limit: float


class _Meter:
    """The use of one share."""

    __slots__ = ("bucket", "rate", "throttles", "used_ms")

    def __init__(self, window: Window) -> None:
        self.rate = Rate(window)
        self.bucket = TokenBucket(window)
        self.throttles = Average(METRICS_WINDOW)
        self.used_ms = 0


class Use(NamedTuple):
    """The use of a quota by the clients that share it.

    Attributes:
        share: the clients.
        rate: the value per second.
        throttle_ms: the average of the throttle times above 0.
        tokens: how many partitions may be changed at once, of a quota of mutations; negative if some are owed.
    """

    share: Share
    rate: float
    throttle_ms: float
    tokens: float


class RequestQuota(Protocol):
    """The quotas of the client of one request.

    Attributes:
        throttle_ms: how long the client must wait after the response.
    """

    throttle_ms: int

    def exempt(self) -> None:
        """Do not limit the time of this request, which another broker has sent."""

    def fetch_limit(self) -> float:
        """Return the most bytes that a Fetch response may have."""

    def record_fetch(self, size: int) -> bool:
        """Record the bytes of a Fetch response; return whether that is too much, so that the response must be empty."""

    def record_mutations(self, partitions: int, *, strict: bool) -> None:
        """Record partitions that are created or deleted.

        Parameters:
            strict: whether to refuse the change when the quota was exceeded before.

        Raises:
            ThrottlingQuotaExceededError: it was, and the change is refused.
        """


class Unlimited:
    """The quotas of a client while the cluster has none."""

    throttle_ms = 0

    def exempt(self) -> None:
        """See `RequestQuota`."""

    def fetch_limit(self) -> float:
        """See `RequestQuota`."""
        return float("inf")

    def record_fetch(self, size: int) -> bool:
        """See `RequestQuota`."""
        return False

    def record_mutations(self, partitions: int, *, strict: bool) -> None:
        """See `RequestQuota`."""


UNLIMITED: RequestQuota = Unlimited()


class ClientQuotas:
    """The quotas of all clients, and their use.

    Parameters:
        image: has the quotas.
        config: the number and the length of the samples.
        clock: measures the use.

    Attributes:
        clock: the broker's clock.
        is_active: whether any quota is set.
    """

    def __init__(self, image: ClusterImage, config: BrokerConfig, clock: Clock) -> None:
        self.clock = clock
        self.is_active = False
        self._image = image
        self._window = Window(config.integer("quota.window.num"), 1000 * config.integer("quota.window.size.seconds"))
        self._mutation_window = Window(
            config.integer("controller.quota.window.num"),
            1000 * config.integer("controller.quota.window.size.seconds"),
        )
        self._quotas: dict[Share, float] = {}
        self._found: dict[Share, _Quota | None] = {}
        self._meters: dict[Share, _Meter] = {}
        self._swept_ms = 0

    @property
    def longest_request_throttle_ms(self) -> int:
        """The longest throttle time for a request percentage: one sample."""
        return self._window.sample_ms

    @property
    def seconds(self) -> int:
        """The seconds of a window, without the current sample."""
        return (self._window.samples - 1) * self._window.sample_ms // 1000

    def follow(self, records: Iterable[Message]) -> None:
        """Take over the quotas of the cluster, if a change of the metadata contains some."""
        if any(isinstance(record, ClientQuotaRecord) for record in records):
            self.load()

    def load(self) -> None:
        """Take over the quotas of the cluster."""
        self._quotas = {}
        self._found = {}
        for (entity, key), record in self._image.quotas.items():
            names = dict(entity)
            user, client_id = (names[kind] or "" if kind in names else None for kind in (USER, CLIENT_ID))
            if (user, client_id) != (None, None):
                self._quotas[Share(key, user, client_id)] = record.value
        self.is_active = bool(self._quotas)

    def of_request(self, user: str, client_id: str) -> LimitedRequest:
        """Return the quotas of the client of a request."""
        return LimitedRequest(self, user, client_id)

    def find(self, key: str, user: str, client_id: str) -> _Quota | None:
        """Return the quota that applies to a client, None without one."""
        asked = Share(key, user, client_id)
        if asked in self._found:
            return self._found[asked]
        found = _most_specific(self._quotas, asked)
        if len(user) + len(client_id) <= _LONGEST_REMEMBERED:
            if len(self._found) >= LOOKUP_LIMIT:
                self._found.clear()
            self._found[asked] = found
        return found

    def uses(self) -> list[Use]:
        """Return the use of every quota that clients have used."""
        now = self.clock()
        found = []
        for share, meter in self._meters.items():
            quota = _most_specific(self._quotas, Share(share.key, share.user or "", share.client_id or ""))
            tokens = 0.0 if quota is None else meter.bucket.tokens(quota.limit, now)
            found.append(Use(share, meter.rate.measure(now), meter.throttles.measure(now), tokens))
        return found

    def meter(self, share: Share) -> _Meter:
        """Return the meter of a share."""
        now = self.clock()
        found = self._meters.get(share)
        if found is None:
            self._sweep(now)
            window = self._mutation_window if share.key == CONTROLLER_MUTATION_RATE else self._window
            found = self._meters[share] = _Meter(window)
        found.used_ms = now
        return found

    def _sweep(self, now_ms: int) -> None:
        """Drop the meters that nobody has used for an hour, or for a window if there are many.

        So memory does not grow with the names of clients. What a bucket owes may take longer than a window.
        """
        are_many = len(self._meters) >= METER_LIMIT
        if now_ms - self._swept_ms < (self._window.sample_ms if are_many else _EXPIRATION_MS // 60):
            return
        self._swept_ms = now_ms
        self._found = {}
        rate_ms = self._window.samples * self._window.sample_ms if are_many else _EXPIRATION_MS
        self._meters = {
            share: meter
            for share, meter in self._meters.items()
            if now_ms - meter.used_ms < (_EXPIRATION_MS if share.key == CONTROLLER_MUTATION_RATE else rate_ms)
        }


def _most_specific(quotas: Mapping[Share, float], client: Share) -> _Quota | None:
    """Return the most specific of the quotas that apply to a client; "" is a default, None is no part of the entity."""
    key, user, client_id = client
    for by_user, by_client_id in (
        (user, client_id),
        (user, ""),
        (user, None),
        ("", client_id),
        ("", ""),
        ("", None),
        (None, client_id),
        (None, ""),
    ):
        limit = quotas.get(Share(key, by_user, by_client_id))
        if limit is not None:
            share = Share(key, None if by_user is None else user, None if by_client_id is None else client_id)
            return _Quota(share, limit)
    return None


class LimitedRequest:
    """The quotas of the client of one request, while some are set; see `RequestQuota`.

    Attributes:
        throttle_ms: how long the client must wait after the response.
    """

    def __init__(self, quotas: ClientQuotas, user: str, client_id: str) -> None:
        self.throttle_ms = 0
        self._quotas = quotas
        self._user = user
        self._client_id = client_id
        self._started_ns = perf_counter_ns()
        self._recorded_time = False
        self._throttled: _Meter | None = None

    def exempt(self) -> None:
        """See `RequestQuota`."""
        self._recorded_time = True

    def record_produce(self, size: int) -> None:
        """Record the bytes of a Produce request."""
        self._record(PRODUCER_BYTE_RATE, size)

    def fetch_limit(self) -> float:
        """See `RequestQuota`."""
        quota = self._quotas.find(CONSUMER_BYTE_RATE, self._user, self._client_id)
        return float("inf") if quota is None else quota.limit * self._quotas.seconds

    def record_fetch(self, size: int) -> bool:
        """See `RequestQuota`."""
        bandwidth_ms = self._record(CONSUMER_BYTE_RATE, size)
        self.record_time()
        if self.throttle_ms <= 0:
            return False
        if bandwidth_ms is not None:
            # The empty response in its place does not use the quota.
            self._record(CONSUMER_BYTE_RATE, -size)
        return True

    def record_mutations(self, partitions: int, *, strict: bool) -> None:
        """See `RequestQuota`."""
        quota = self._quotas.find(CONTROLLER_MUTATION_RATE, self._user, self._client_id)
        if quota is None:
            return
        meter, now = self._quotas.meter(quota.share), self._quotas.clock()
        bucket = meter.bucket
        owed_ms = bucket.throttle_ms(quota.limit, now)
        if strict and owed_ms:
            self._throttle(owed_ms, meter)
            raise ThrottlingQuotaExceededError("The throttling quota has been exceeded.")
        bucket.take(partitions, quota.limit, now)
        meter.rate.record(partitions, now)
        if not strict:
            self._throttle(bucket.throttle_ms(quota.limit, now), meter)

    def note_throttled(self) -> None:
        """Record the throttle time for the quota that it is due to, as a metric."""
        if self._throttled is not None:
            self._throttled.throttles.record(self.throttle_ms, self._quotas.clock())

    def _throttle(self, throttle_ms: int, meter: _Meter) -> None:
        if throttle_ms > self.throttle_ms:
            self.throttle_ms, self._throttled = throttle_ms, meter

    def record_time(self) -> None:
        """Record the time that the handler has needed; a second call has no effect."""
        if self._recorded_time:
            return
        self._recorded_time = True
        spent = (perf_counter_ns() - self._started_ns) / _NS_PER_PERCENT
        self._record(REQUEST_PERCENTAGE, spent, self._quotas.longest_request_throttle_ms)

    def _record(self, key: str, value: float, longest_ms: int | None = None) -> int | None:
        """Record a use, and return the throttle time; None without a quota."""
        quota = self._quotas.find(key, self._user, self._client_id)
        if quota is None:
            return None
        meter, now = self._quotas.meter(quota.share), self._quotas.clock()
        meter.rate.record(value, now)
        if value < 0:
            return 0
        throttle_ms = meter.rate.throttle_ms(quota.limit, now)
        if longest_ms is not None:
            throttle_ms = min(throttle_ms, longest_ms)
        self._throttle(throttle_ms, meter)
        return throttle_ms
