"""The time of a record, in C: the system's clock, read as seldom as a record's timestamp allows."""

cdef extern from *:
    """
    #if defined(_MSC_VER)
      #include <windows.h>
      static __inline long long kclient_epoch_ms(void) {
          FILETIME t;
          GetSystemTimePreciseAsFileTime(&t);
          return (((long long)t.dwHighDateTime << 32 | t.dwLowDateTime) - 116444736000000000LL) / 10000;
      }
    #else
      #include <time.h>
      static inline long long kclient_epoch_ms(void) {
          struct timespec t;
          clock_gettime(CLOCK_REALTIME, &t);
          return (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
      }
    #endif
      /* Reading the system's clock is the largest part of a send; the processor's own counter tells whether it
         was read less than 100,000 cycles (20 to 100 microseconds) ago. */
      typedef struct { unsigned long long read_at; long long ms; } kclient_clock;
    #if defined(__x86_64__) && defined(__GNUC__)
      static inline long long kclient_recent_ms(kclient_clock *clock) {
          unsigned long long now = __builtin_ia32_rdtsc();
          if (now - clock->read_at > 100000ULL) {
              clock->ms = kclient_epoch_ms();
              clock->read_at = now;
          }
          return clock->ms;
      }
    #else
      static inline long long kclient_recent_ms(kclient_clock *clock) { return kclient_epoch_ms(); }
    #endif
    """
    ctypedef struct kclient_clock:
        unsigned long long read_at
        long long ms
    long long kclient_recent_ms(kclient_clock* clock) noexcept
