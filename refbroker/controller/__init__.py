"""The controller: decides how the metadata of the cluster changes, and appends the changes to the metadata log.

A plan (`topics`, `configs`, `features`, `quotas`, `acls`, …) checks a requested change against the state of the cluster
and returns the records of the change, or raises Kafka's error. `active` appends them. Elsewhere: the state itself,
which only records change (`refbroker.metadata`). Source: KIP-500, KIP-631.
"""
