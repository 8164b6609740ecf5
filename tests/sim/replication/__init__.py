"""The machines of replication over logs in memory, with the plans of the controller, in a seeded simulation."""
