"""The engine of every client: one network thread that owns the sockets and all protocol state.

Managers decide (`manager`), the driver acts (`driver`), the engine is the face of both to the rest
of the client (`engine`). `waiting` is how application threads and tasks wait for it.
"""
