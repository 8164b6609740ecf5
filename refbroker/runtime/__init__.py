"""What every part of the broker runs on: the clock, work at intervals, worker threads, the limit of open files."""
