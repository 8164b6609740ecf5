"""Who a client is: principals, and how they are made of what a connection proves.

Elsewhere: TLS itself (`refbroker.server.tls`), the users of a listener (`refbroker.server.sasl`). Not implemented:
what a principal may do.
"""
