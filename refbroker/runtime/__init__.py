"""What every part of the broker runs on: the clock, periodic tasks, worker threads and the limit of open files."""
