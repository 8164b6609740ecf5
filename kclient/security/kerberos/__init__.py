"""GSSAPI: logging in with tickets of Kerberos, by the package `gssapi` (python-gssapi), which is imported on use.

`exchange` has the messages of both sides, `library` the calls of the package, `failures` what its errors mean,
`settings` whose tickets a client uses, and `login` the login of a client. Elsewhere: what a broker does with the name
of a principal (`refbroker.security.kerberos_names`).
"""
