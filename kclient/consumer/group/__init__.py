"""Consumer groups: what both protocols have in common.

A member talks to the coordinator, on the network thread; the owner's part of a rebalance runs inside the
application's calls: commits, listeners, the assignor. The two talk through events, one at a time. `classic` and
`consumer_protocol` hold what is particular to one protocol, `kclient.consumer.committed` the committed offsets.
"""
