"""The handlers of requests: one module per API, which documents what the API does, its versions, and what is not
implemented.

`registry` lists them; a module is imported with the first request of its API.
"""
