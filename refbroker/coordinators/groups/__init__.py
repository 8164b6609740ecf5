"""Groups: their members, generations and committed offsets, in `__consumer_offsets`."""
