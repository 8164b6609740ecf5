"""What a consumer is assigned: topics and patterns, the state of each partition, and records fetched but not read yet.

The one structure that the application's thread and the network thread share.
"""
