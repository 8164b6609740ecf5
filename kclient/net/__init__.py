"""The engine of every client: one network thread that owns the sockets and all protocol state.

Managers decide what to send (`manager`), the driver sends it (`driver`), and the engine is the interface of both to the
rest of the client (`engine`). Application threads and tasks wait for it with `waiting`.
"""
