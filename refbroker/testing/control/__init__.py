"""What a test holds in its hands beside faults: the clock, the disk, elections; in this process and over HTTP.

`server` offers what `refbroker.testing.RefBroker` can do as JSON over HTTP, `client` speaks it with the same methods.
"""
