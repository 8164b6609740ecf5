"""OAUTHBEARER: tokens, where a client gets them, and the messages that carry them (RFC 7628).

`exchange` has the messages, `tokens` what is read from a token, `source` the token of a client and its renewal,
`settings` the choice of a provider, `endpoint` and `assertions` the providers. Elsewhere: what a broker accepts
(`refbroker.security.oauth`).
"""
