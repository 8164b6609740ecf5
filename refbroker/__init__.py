"""A reference broker for Kafka's protocol: the same requests and the same files on disk, on one node, in Python.

`refbroker.testing` has the broker for tests, `python -m refbroker` the one for the command line.
"""
