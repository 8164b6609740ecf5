"""Records from the brokers to the application: Fetch requests, fetch sessions, their responses, and decoding."""
