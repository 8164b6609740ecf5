"""Consumer groups: the parts that both group protocols share.

The member talks to the coordinator, on the network thread. The owner's part of a rebalance (commits, listeners, the
assignor) runs inside the application's calls. They communicate by events. `classic` and `consumer_protocol` have the
parts of one protocol, `kclient.consumer.committed` the committed offsets.
"""
