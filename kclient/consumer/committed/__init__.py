"""Committed offsets: OffsetCommit, OffsetFetch, the automatic commit, and the calls of the application."""
