"""Collects the metrics of a broker and serves them over HTTP. `refbroker.metrics` counts and declares them."""
