"""The faults of a broker in this process, and their counts.

Any thread may add, remove and wait; the event loop reads `rules`, a tuple that is replaced and never changed, so that a
broker without faults only pays for reading it. One lock guards everything else.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading

from refbroker.testing.faults.methods import Fault, FaultMethods
from refbroker.testing.faults.rule import Rule


class ActiveFault(Fault):
    """A fault of a broker in this process.

    Attributes:
        number: its id.
    """

    def __init__(self, faults: Faults, number: int, rule: Rule) -> None:
        self.number = number
        self._rule = rule
        self._faults = faults
        self._fired = 0
        self._removed = False
        # In the order of the requests: the order of a set would differ from run to run.
        self._delaying: dict[tuple[asyncio.AbstractEventLoop, asyncio.Event], None] = {}

    def __repr__(self) -> str:
        described = {**self._rule.as_json(), "fired": self._fired}
        described.pop("message", None)
        return f"<fault {', '.join(f'{name}={value}' for name, value in described.items())}>"

    @property
    def rule(self) -> Rule:
        return self._rule

    @property
    def fired(self) -> int:
        return self._fired

    @property
    def is_spent(self) -> bool:
        """Whether it was applied to all its requests, or removed."""
        return self._removed or self._fired == self._rule.count

    def wait(self, count: int = 1, timeout: float = 10.0) -> None:
        changed = self._faults.changed
        with changed:
            if not changed.wait_for(lambda: self._fired >= count, timeout):
                raise TimeoutError(
                    f"the fault for {self._rule.api} was applied to {self._fired} of {count} requests in {timeout:g} s"
                )

    def remove(self) -> None:
        with self._faults.changed:
            self._removed = True
            self._faults.forget(self)
            delaying, self._delaying = self._delaying, {}
        for loop, released in delaying:
            # A closed loop has no waiting task to release.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(released.set)

    # What the event loop calls

    def count_request(self) -> bool:
        """Count a request; return False if the fault is exhausted."""
        with self._faults.changed:
            if self.is_spent:
                return False
            self._fired += 1
            self._faults.struck()
            return True

    async def delay(self) -> None:
        """Wait as long as the rule says, or until the fault is removed."""
        waiting = (asyncio.get_running_loop(), asyncio.Event())
        with self._faults.changed:
            if self._removed:
                return
            self._delaying[waiting] = None
        try:
            async with asyncio.timeout(self._rule.seconds):
                await waiting[1].wait()
        except TimeoutError:
            pass
        finally:
            with self._faults.changed:
                self._delaying.pop(waiting, None)


class Faults(FaultMethods):
    """The faults of a broker in this process; they stay while it is stopped and started again.

    Attributes:
        rules: the faults that are not exhausted, the oldest first.
        changed: the lock, and the condition of waiting callers.
    """

    def __init__(self) -> None:
        self.rules: tuple[ActiveFault, ...] = ()
        self.changed = threading.Condition(threading.RLock())
        self._numbers = itertools.count(1)
        self._all: dict[int, ActiveFault] = {}

    def add(self, rule: Rule) -> ActiveFault:
        with self.changed:
            fault = ActiveFault(self, next(self._numbers), rule)
            self._all[fault.number] = fault
            self.rules = (*self.rules, fault)
            return fault

    def list(self) -> list[Fault]:
        with self.changed:
            return [*self._all.values()]

    def find(self, number: int) -> ActiveFault | None:
        """Return the fault with a number; None if it was removed or never existed."""
        return self._all.get(number)

    def forget(self, fault: ActiveFault) -> None:
        """Drop a removed fault. The lock is held."""
        self._all.pop(fault.number, None)
        self.struck()

    def struck(self) -> None:
        """Notify waiting callers of a change. The lock is held."""
        if any(fault.is_spent for fault in self.rules):
            self.rules = tuple(fault for fault in self.rules if not fault.is_spent)
        self.changed.notify_all()
