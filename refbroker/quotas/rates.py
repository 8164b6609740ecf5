"""The arithmetic of quotas: a rate and an average over a sliding window, and a token bucket.

Times are milliseconds of the broker's clock, which callers pass in. Elsewhere: which quota applies (`client_quotas`).
Source: Kafka's Rate, Avg, SampledStat, TokenBucket and QuotaUtils; KIP-13, KIP-599.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple


class Window(NamedTuple):
    """The samples that a rate is computed from.

    Attributes:
        samples: their number, the current one included.
        sample_ms: the length of each.
    """

    samples: int
    sample_ms: int


METRICS_WINDOW = Window(2, 30_000)
"""The window of an average that is only a metric: Kafka's defaults."""


class _Sample:
    """What was recorded within one part of a window."""

    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0


class Rate:
    """A value per second, over a window of samples."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._samples: deque[_Sample] = deque(maxlen=window.samples + 1)

    def record(self, value: float, now_ms: int) -> None:
        """Add a value; a negative one takes an earlier value back."""
        if not self._samples or now_ms - self._samples[-1].start_ms >= self._window.sample_ms:
            self._samples.append(_Sample(now_ms))
        self._samples[-1].value += value
        self._samples[-1].last_ms = now_ms

    def measure(self, now_ms: int) -> float:
        """Return the value per second."""
        return self.total(now_ms) / self._length_ms(now_ms) * 1000

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        """Return how many milliseconds without a value bring the rate down to a quota; 0 if it is not above."""
        rate = self.measure(now_ms)
        if rate <= quota:
            return 0
        return round((rate - quota) / quota * self._length_ms(now_ms))

    def total(self, now_ms: int) -> float:
        """Return the sum of the values in the window."""
        expired_ms = self._window.samples * self._window.sample_ms
        while self._samples and now_ms - self._samples[0].last_ms >= expired_ms:
            self._samples.popleft()
        return sum(sample.value for sample in self._samples)

    def _length_ms(self, now_ms: int) -> int:
        """Return the length of the window; until it is full once, the missing samples count as if they were empty."""
        elapsed = now_ms - self._samples[0].start_ms if self._samples else 0
        missing = self._window.samples - 1 - elapsed // self._window.sample_ms
        return max(elapsed + max(missing, 0) * self._window.sample_ms, 1)


class Average:
    """The average of values over a window of samples."""

    def __init__(self, window: Window) -> None:
        self._sum = Rate(window)
        self._count = Rate(window)

    def record(self, value: float, now_ms: int) -> None:
        """Add a value."""
        self._sum.record(value, now_ms)
        self._count.record(1, now_ms)

    def measure(self, now_ms: int) -> float:
        """Return the average; 0 without a value."""
        count = self._count.total(now_ms)
        return self._sum.total(now_ms) / count if count else 0.0


class TokenBucket:
    """Tokens that refill at the rate of the quota, up to the amount of one window."""

    def __init__(self, window: Window) -> None:
        self._window_seconds = window.samples * window.sample_ms / 1000
        self._tokens = 0.0
        self._updated_ms = 0

    def take(self, value: float, quota: float, now_ms: int) -> None:
        """Take tokens, also more than there are."""
        self._refill(quota, now_ms)
        self._tokens = min(self._window_seconds * quota, self._tokens - value)

    def tokens(self, quota: float, now_ms: int) -> float:
        """Return how many tokens there are; negative if some are owed."""
        self._refill(quota, now_ms)
        return self._tokens

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        """Return how many milliseconds it takes until no tokens are owed; 0 if none are."""
        self._refill(quota, now_ms)
        return round(-self._tokens / quota * 1000) if self._tokens < 0 else 0

    def _refill(self, quota: float, now_ms: int) -> None:
        added = quota * (now_ms - self._updated_ms) / 1000
        self._tokens = min(self._window_seconds * quota, self._tokens + added)
        self._updated_ms = now_ms
