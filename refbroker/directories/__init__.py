"""The data directories of a broker beside their logs: how they come to be, fail, and give partitions to each other.

`formatting` makes them, `events` takes one that has failed offline and keeps the metadata true about all of them,
`moves` moves partitions from one to another. What is in a directory is `refbroker.log`'s.
"""
