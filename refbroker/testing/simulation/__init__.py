"""A simulated machine for brokers and clients: one thread, simulated time, and a network without sockets.

`scheduler` decides what runs next and moves the clock, `network` carries bytes, `loop` is an asyncio event loop on top
of both, and `host` runs a `RefBroker` on such a loop. A seed decides every choice, so that a run repeats exactly.

The package is part of refbroker, and not of the tests, because brokers reach each other through `loop` as well. It
knows nothing of clients: another kind of client connects with `network.Network.connect`.
"""
