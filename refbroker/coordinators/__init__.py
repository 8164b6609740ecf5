"""Coordinators: what a broker keeps for groups, and for transactions, in the partitions of an internal topic.

Who leads such a partition coordinates the keys that hash to it. `runtime` loads, writes and gives up their state,
`groups` is the state of groups.
"""
