"""State that Fetch requests leave on the broker: incremental fetch sessions and delayed fetches."""
