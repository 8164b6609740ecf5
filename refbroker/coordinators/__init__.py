"""Coordinators of groups and of transactions, which keep their state in the partitions of an internal topic.

The leader of such a partition coordinates the keys that hash to it. `runtime` loads, writes and unloads the state,
`groups` and `transactions` define it.
"""
