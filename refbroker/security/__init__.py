"""Who a client is: principals, and how they are made of what a connection proves.

Elsewhere: TLS itself (`refbroker.server.tls`). Not implemented: SASL, and what a principal may do.
"""
