"""Consumer groups: membership, assignment, committed offsets.

`member` talks to the coordinator, on the network thread; `coordination` does the owner's part of a
rebalance, inside its calls: commits, listeners, the assignor. They talk through events, one at a time.
"""
