"""Consumer groups (KIP-848): members send their subscription and partitions, and the coordinator assigns.

`group` and `member` have the state of the records, `records` their format. `heartbeats` handles the only request of
members: `epochs` decides whether the group's epoch has to change, `targets` the target assignment, and `reconciliation`
a member's next step towards it. `patterns` resolves regular expressions. `classic_members` supports members of the
classic protocol, and `migration` converts groups between the protocols.
"""
