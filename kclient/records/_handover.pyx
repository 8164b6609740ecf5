# cython: language_level=3
"""How a busy application thread lets the network thread have the GIL without waiting for the switch interval.

A thread that computes keeps the GIL for 5 ms at a time, and the network thread would wait that long for every
turn. So the network thread calls `raise_flag` (no GIL needed) when it comes back from a system call and wants the
GIL, and `lower_flag` once it has it; the compiled hot paths call `step_aside` once in a while, which costs a load
while the flag is down and otherwise gives the GIL away until the flag drops, for 100 microseconds at most.

The pure-Python twin of the hot paths has no counterpart: there the interpreter switches threads by itself.
"""

cdef enum:
    LONGEST_WAIT_NS = 100_000

network_waits = 0
times_stepped_aside = 0


cdef void give_way() noexcept:
    global times_stepped_aside
    cdef long long deadline
    times_stepped_aside += 1
    with nogil:
        deadline = kclient_now_ns() + LONGEST_WAIT_NS
        while KCLIENT_ATOMIC_LOAD(&network_waits) > 0 and kclient_now_ns() < deadline:
            kclient_yield()


def statistics() -> dict:
    """Returns `network_waits` (threads waiting now) and `times_stepped_aside` (since the start)."""
    return {"network_waits": network_waits, "times_stepped_aside": times_stepped_aside}


def raise_and_lower(bint up) -> None:
    """Raise (True) or lower (False) the flag from Python; for drivers without compiled code, and for tests."""
    if up:
        raise_flag()
    else:
        lower_flag()


def step_aside_now() -> None:
    """Step aside as the compiled hot paths do."""
    step_aside()
