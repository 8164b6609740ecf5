# cython: language_level=3
"""Hand-over of the GIL from a busy application thread to the network thread, before the switch interval ends.

A thread that computes keeps the GIL for 5 ms at a time, and the network thread would wait that long for every turn.
So the network thread calls `raise_flag` (without the GIL) when it returns from a system call and needs the GIL, and
`lower_flag` when it has it. The compiled hot paths call `step_aside` now and then, which costs a load while the flag is
down, and otherwise releases the GIL until the flag is lowered, for at most 100 microseconds.

Not implemented: a counterpart in pure Python, where the interpreter switches threads by itself.
"""

cdef enum:
    LONGEST_WAIT_NS = 100_000

network_waits = 0
times_stepped_aside = 0


cdef void release_gil() noexcept:
    global times_stepped_aside
    cdef long long deadline
    times_stepped_aside += 1
    with nogil:
        deadline = kclient_now_ns() + LONGEST_WAIT_NS
        while KCLIENT_ATOMIC_LOAD(&network_waits) > 0 and kclient_now_ns() < deadline:
            kclient_yield()


def statistics() -> dict:
    """Return `network_waits` (threads that wait now) and `times_stepped_aside` (since the start)."""
    return {"network_waits": network_waits, "times_stepped_aside": times_stepped_aside}


def raise_and_lower(bint up) -> None:
    """Raise (True) or lower (False) the flag from Python; for drivers without compiled code, and for tests."""
    if up:
        raise_flag()
    else:
        lower_flag()


def step_aside_now() -> None:
    """Release the GIL as the compiled hot paths do."""
    step_aside()
