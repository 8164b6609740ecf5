"""The benchmarks: `make bench`."""
