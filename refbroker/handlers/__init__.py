"""What the broker answers: one module per API, each saying what it does, in which versions, and what is missing.

`registry` lists them; a module is imported with the first request of its API.
"""
