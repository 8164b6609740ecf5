"""Exponential backoff with jitter: how long to wait after so many failures in a row."""

from __future__ import annotations

import random

from kclient.config import ClientConfig


class Backoff:
    """Waits that double with every failure.

    Parameters:
        first: seconds after the first failure.
        most: seconds that no wait exceeds, jitter included.
        jitter: the part by which a wait is longer or shorter at random, so that clients that failed
            together do not come back together.
        random: where the randomness comes from.
    """

    def __init__(self, first: float, most: float, *, jitter: float = 0.2, random: random.Random) -> None:
        self._first = min(first, most)
        self._most = most
        self._jitter = jitter
        self._random = random

    def seconds(self, failures: int) -> float:
        """The wait after so many failures; 1 is the first."""
        wait: float = self._first * 2.0 ** min(max(failures - 1, 0), 50)
        return min(self._most, wait * self._random.uniform(1 - self._jitter, 1 + self._jitter))


def retry_backoff(config: ClientConfig, random: random.Random) -> Backoff:
    """The waits before a failed request is repeated, as the options retry_backoff_ms and retry_backoff_max_ms say."""
    return Backoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000, random=random)
