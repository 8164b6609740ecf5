"""The controls of a test besides faults: the clock, the disk, elections; in this process and over HTTP.

`server` offers the methods of `refbroker.testing.RefBroker` as JSON over HTTP, `client` calls them.
"""
