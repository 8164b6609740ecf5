"""Consumer groups (KIP-848): members only tell what they want and have, and the coordinator assigns.

`group` and `member` are what the records say, `records` their form. `heartbeats` carries out the one request of
members: `epochs` sees whether the group's epoch has to change, `targets` what each member is to have from then on,
`reconciliation` how far a member is on its way there. `patterns` resolves regular expressions. `classic_members` lets
members of the classic protocol in, and `migration` turns groups of one protocol into groups of the other.
"""
