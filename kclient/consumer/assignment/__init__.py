"""The assignment of a consumer: topics and patterns, the state of each partition, and fetched records.

This is the only structure that the application's thread and the network thread share.
"""
