"""Reads every metric of a broker, and offers them over HTTP. What counts them is in `refbroker.metrics`."""
