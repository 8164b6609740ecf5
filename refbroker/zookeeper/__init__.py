"""The registry in ZooKeeper that Kafka had before KRaft, for programs and documents that read it.

It shows the state of the cluster beside the metadata log, which stays the truth: nothing is read back from it but who
holds a node, and a broker whose ZooKeeper is gone serves on. Needs the extra `zookeeper`.

    nodes.py      the paths and values of the nodes
    session.py    a session with ZooKeeper, by kazoo, in worker threads
    registry.py   keeps the nodes of this broker, and as the controller those of topics, equal to the metadata

Not implemented: the nodes of consumers, and reading topics or settings that others write there.
"""
