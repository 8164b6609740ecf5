"""From the socket to the handler and back: the listener, connections, dispatch; HTTP for the rest."""
