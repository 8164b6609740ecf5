"""Connections of this node to other nodes: brokers, and the controllers of the cluster."""
