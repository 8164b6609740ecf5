"""ZooKeeper for tests: its nodes in memory (`tree`), and a real server (`server`)."""
