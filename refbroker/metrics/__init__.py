"""What the broker counts and measures, for Prometheus and for tests.

The parts count while they work, in plain integers (`counters`); whatever they know anyway (sizes, offsets, sessions)
is read when somebody asks (`refbroker.server.metrics`). All of it belongs to the event loop. What there is, under
which name, is one table (`table`); `exposition` makes a page or a dict of it.
"""
