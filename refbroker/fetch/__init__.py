"""What Fetch requests leave behind: incremental fetch sessions, and requests that wait for more bytes."""
