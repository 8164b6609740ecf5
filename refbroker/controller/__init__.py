"""The controller: decides how the metadata of the cluster changes.

A plan (`topics`, `configs`, `acls`, `scram`, `registration`) checks a requested change against the state of the cluster
and returns the records of the change, or raises Kafka's error. Elsewhere: the state itself, which only records change
(`refbroker.metadata`). Source: KIP-500, KIP-631.
"""
