"""The data directories of a broker: formatting, failures, and moves of partitions between them.

`formatting` formats directories, `events` takes a failed directory offline and keeps the cluster metadata up to date,
`moves` moves partitions between directories. Elsewhere: `refbroker.log` reads and writes the logs in a directory.
"""
