"""Log lines about clients, limited by cause and address, so that nobody can fill the log.

The first line of a cause and address is logged at once; repetitions are counted, and the next line that is logged says
how many there were. A reason may contain what a client has sent, so it is cut off and escaped, and an address has only
so many causes. Elsewhere: what is worth a line.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable

from refbroker.runtime.log_lines import printable

INTERVAL = 10.0
"""Seconds between two lines of one cause and address."""
SOURCES_LIMIT = 1_000
"""The most causes and addresses to remember; further ones share one line."""
CAUSES_LIMIT = 20
"""The most causes of one address to remember; further ones share one line."""
REASON_LIMIT = 500
"""Characters of a reason that are logged."""

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
        self._causes: Counter[str] = Counter()
        self._forgot = clock() - INTERVAL

    def warning(self, peer: str, template: str, reason: object) -> None:
        """Log a line, unless one like it was logged recently.

        Parameters:
            peer: the client's address and port.
            template: the line, with a place for the peer and one for the reason.
            reason: what happened; reasons that differ in numbers only have the same cause.
        """
        now = self._clock()
        full = str(reason)
        text = printable(full[:REASON_LIMIT]) + ("..." if len(full) > REASON_LIMIT else "")
        key = self._key(_NUMBERS.sub("#", f"{template}{text}"), peer.rpartition(":")[0], now)
        found = self._sources.get(key)
        last, count = found or (now - INTERVAL, 0)
        if now - last < INTERVAL:
            self._sources[key] = last, count + 1
            return
        self._sources[key] = now, 0
        self._causes[key[1]] += found is None
        more = f" ({count} more like it from {key[1]} before)" if count else ""
        self._logger.warning("%s%s", template % (peer, text), more)

    def _key(self, cause: str, address: str, now: float) -> tuple[str, str]:
        """Return what a line is counted by: its cause and address, unless there are too many."""
        if (cause, address) in self._sources:
            return cause, address
        if len(self._sources) >= SOURCES_LIMIT or self._causes[address] >= CAUSES_LIMIT:
            self._forget(now)
        if len(self._sources) >= SOURCES_LIMIT:
            return _FURTHER
        return ("", address) if self._causes[address] >= CAUSES_LIMIT else (cause, address)

    def _forget(self, now: float) -> None:
        """Drop what has not happened for long; at most once in an interval, since it looks at all of them."""
        if now - self._forgot < INTERVAL:
            return
        self._forgot = now
        self._sources = {key: found for key, found in self._sources.items() if now - found[0] < INTERVAL}
        self._causes = Counter(address for _, address in self._sources)
