"""Consumer groups: the parts that both group protocols share.

The member exchanges requests with the coordinator, on the network thread. The rest of a rebalance (commits, listeners,
the assignor) runs inside the application's calls for records; the modules of this package call that side "the
application". The two sides communicate by events. `classic` and `consumer_protocol` have the parts of one protocol,
`kclient.consumer.committed` the committed offsets.
"""
