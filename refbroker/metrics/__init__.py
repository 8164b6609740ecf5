"""The broker's metrics, for Prometheus and for tests.

Each part counts in plain integers while it works (`counters`). Values that the broker holds already (sizes, offsets,
sessions) are read when the metrics are requested (`refbroker.server.metrics`). All of it belongs to the event loop.
`table` declares every metric; `exposition` renders them as a page or a dict.
"""
