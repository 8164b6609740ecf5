"""Engines on a simulated network with brokers that are plain functions, for tests of one part of the client."""
