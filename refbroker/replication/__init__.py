"""Replication of partitions: the roles of this broker's replicas, and machines that decide for leader and followers.

    manager          the role of each replica on this broker, which moves the high watermark of its log
    delayed_produce  the Produce requests that wait for a high watermark
    partition        the local replica of a partition: its role, and as leader the followers, ISR and high watermark
    isr, followers   the in-sync replicas, committed and proposed; what the leader knows of each follower
    rules            the rules of a leader as functions: high watermark, joining the ISR, epochs
    divergence       where two logs diverge, and what a follower truncates and appends
    fetcher          the partitions that are fetched from one leader
    throttle         the throttles of reassignments
    alter_partition  the requests to the controller that change the ISR

Apart from the first two, nothing here reads a clock, a socket or a file. Times are parameters, logs are read through
the Protocol `ReplicaLog`, and decisions are returned: the caller appends, truncates, sends, and moves high watermarks.

Elsewhere: truncation of the files of a log (`refbroker.log.truncation`).
"""
