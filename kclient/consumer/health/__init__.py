"""Whether a consumer makes progress, and if not, what it waits for: a snapshot on request, and a timer that notices."""
