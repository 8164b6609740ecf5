"""Engines of the client on a simulated network, with plain functions as brokers, for tests of one part of the
client.
"""
