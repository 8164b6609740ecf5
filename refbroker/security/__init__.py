"""Who a client is, and what it may do: principals, logins, ACLs and the authorizer.

Elsewhere: TLS itself (`refbroker.server.tls`), and the users of a listener (`refbroker.server.sasl`).
"""
