"""Fetching: Fetch requests, fetch sessions, responses and decoding."""
