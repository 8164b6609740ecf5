# The C surface of the hand-over; see _handover.pyx for what it is for.

cdef extern from *:
    """
    #if defined(_MSC_VER)
      #include <windows.h>
      #define KCLIENT_ATOMIC_ADD(p, n) InterlockedExchangeAdd((volatile long *)(p), (n))
      #define KCLIENT_ATOMIC_LOAD(p) (*(p))
      static __inline void kclient_yield(void) { SwitchToThread(); }
      static __inline long long kclient_now_ns(void) {
          LARGE_INTEGER t, f;
          QueryPerformanceCounter(&t);
          QueryPerformanceFrequency(&f);
          return (long long)(t.QuadPart * 1000000000.0 / f.QuadPart);
      }
    #else
      #include <sched.h>
      #include <time.h>
      #define KCLIENT_ATOMIC_ADD(p, n) __atomic_fetch_add((p), (n), __ATOMIC_RELAXED)
      #define KCLIENT_ATOMIC_LOAD(p) __atomic_load_n((p), __ATOMIC_RELAXED)
      static inline void kclient_yield(void) { sched_yield(); }
      static inline long long kclient_now_ns(void) {
          struct timespec t;
          clock_gettime(CLOCK_MONOTONIC, &t);
          return (long long)t.tv_sec * 1000000000LL + t.tv_nsec;
      }
    #endif
    """
    void KCLIENT_ATOMIC_ADD(long* counter, long n) noexcept nogil
    long KCLIENT_ATOMIC_LOAD(long* counter) noexcept nogil
    void kclient_yield() noexcept nogil
    long long kclient_now_ns() noexcept nogil


# The number of network threads that wait for the GIL now, and how often the GIL was released for one.
cdef long network_waits
cdef long times_stepped_aside


cdef inline void raise_flag() noexcept nogil:
    KCLIENT_ATOMIC_ADD(&network_waits, 1)


cdef inline void lower_flag() noexcept nogil:
    KCLIENT_ATOMIC_ADD(&network_waits, -1)


cdef inline void step_aside() noexcept:
    if KCLIENT_ATOMIC_LOAD(&network_waits) > 0:
        release_gil()


cdef void release_gil() noexcept
