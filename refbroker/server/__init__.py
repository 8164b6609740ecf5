"""From the socket to the handler and back: the listener, connections and dispatch; HTTP for metrics and test
control.
"""
