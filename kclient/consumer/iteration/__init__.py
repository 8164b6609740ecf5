"""Iteration over a consumer, record by record: the pure and the compiled iterator, and the chunk they read from."""
