"""Secures the clients of a process that a test of a secured run starts; Python imports this at its start."""

from tests.support.security.clients import secure_clients

secure_clients()
