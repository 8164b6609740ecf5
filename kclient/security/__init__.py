"""What both sides of a secured connection need: secrets, stores of keys and certificates, TLS contexts, names.

For clients and for the broker: bytes and files only, no sockets. Elsewhere: TLS on a client's connection
(`kclient.net.tls`) and on a listener (`refbroker.server.tls`).
"""
