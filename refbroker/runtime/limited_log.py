"""Log lines about clients, limited by cause and address, so that nobody can fill the log.

The first line of a cause and address is logged at once; repetitions are counted, and the next line that is logged says
how many there were. Elsewhere: what is worth a line.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

INTERVAL = 10.0
"""Seconds between two lines of one cause and address."""
SOURCES_LIMIT = 1_000
"""The most causes and addresses to remember; further ones share one line."""

_NUMBERS = re.compile(r"[0-9]+")
_FURTHER = ("", "other addresses")


class LimitedLog:
    """The lines of one logger about clients.

    Parameters:
        logger: logs them, as warnings.
        clock: seconds.
    """

    def __init__(self, logger: logging.Logger, clock: Callable[[], float]) -> None:
        self._logger = logger
        self._clock = clock
        # By cause and address: when a line was logged, and the lines since then.
        self._sources: dict[tuple[str, str], tuple[float, int]] = {}
        self._forgot = clock() - INTERVAL

    def warning(self, peer: str, template: str, reason: object) -> None:
        """Log a line, unless one like it was logged recently.

        Parameters:
            peer: the client's address and port.
            template: the line, with a place for the peer and one for the reason.
            reason: what happened; reasons that differ in numbers only have the same cause.
        """
        now = self._clock()
        cause = _NUMBERS.sub("#", f"{template}{reason}")
        key = cause, peer.rpartition(":")[0]
        if key not in self._sources and len(self._sources) >= SOURCES_LIMIT:
            self._forget(now)
            if len(self._sources) >= SOURCES_LIMIT:
                key = _FURTHER
        last, count = self._sources.get(key, (now - INTERVAL, 0))
        if now - last < INTERVAL:
            self._sources[key] = last, count + 1
            return
        self._sources[key] = now, 0
        text = f"{template} ({count} more like it from {key[1]} before)" if count else template
        self._logger.warning(text, peer, reason)

    def _forget(self, now: float) -> None:
        """Drop what has not happened for long; at most once in an interval, since it looks at all of them."""
        if now - self._forgot < INTERVAL:
            return
        self._forgot = now
        self._sources = {key: found for key, found in self._sources.items() if now - found[0] < INTERVAL}
