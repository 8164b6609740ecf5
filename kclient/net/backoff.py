"""Exponential backoff with jitter."""

from __future__ import annotations

import random

from kclient.config import ClientConfig


class Backoff:
    """Waits that double with every failure.

    Parameters:
        first: seconds after the first failure.
        most: seconds that no wait exceeds, jitter included.
        jitter: the fraction by which a wait is randomly longer or shorter, so that clients that failed together do not
            retry together.
        random: where the randomness comes from.
    """

    def __init__(self, first: float, most: float, *, jitter: float = 0.2, random: random.Random) -> None:
        self._first = min(first, most)
        self._most = most
        self._jitter = jitter
        self._random = random

    def seconds(self, failures: int) -> float:
        """Return the wait after this many consecutive failures, at least 1."""
        wait: float = self._first * 2.0 ** min(max(failures - 1, 0), 50)
        return min(self._most, wait * self._random.uniform(1 - self._jitter, 1 + self._jitter))


def retry_backoff(config: ClientConfig, random: random.Random) -> Backoff:
    """Return the waits between retries of a request, from the options retry_backoff_ms and retry_backoff_max_ms."""
    return Backoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000, random=random)
